"""The page in a real browser while alerts pour in: nothing is lost, and what the browser holds stays small."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bench.page import FLOOD, demo_policy, flood, flood_events, long_session, served
from tests.bench.waits import chromium_page
from tests.browser.devtools import CHROMIUM
from tests.parts import import_part, require

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("page")]


@pytest.fixture(autouse=True)
def _needs_chromium() -> None:
    require(CHROMIUM, "no Chromium is installed (Debian: apt-get install chromium)")
    import_part("playwright.sync_api")


def test_a_flood_is_shown_summed_up_and_kept_whole(tmp_path: Path) -> None:
    found = flood(tmp_path, 2_000, 5)
    assert (found["in_history"], found["on_the_page"]) == (2_000, 2_000)
    assert found["sent"] + sum(found["summaries"]) == 2_000
    assert found["summaries"]
    assert found["sent"] < 1_000  # a hundred in each window of five seconds
    assert found["live_messages"] > 0
    assert found["elements"] < 6_000


@contextmanager
def watching(folder: Path, alerts: int, address: str = "/") -> Iterator[tuple[Any, Any]]:
    """Open a live list of so many alerts. Yield the server, which takes more, and the page."""
    with served(folder, FLOOD) as server, chromium_page() as page:
        server.send(flood_events(alerts))
        page.goto(f"{server.url}{address}")
        page.wait_for_selector("#live.on")
        yield server, page


def test_a_list_that_is_read_does_not_move_and_says_what_waits(tmp_path: Path) -> None:
    with watching(tmp_path, 300) as (server, page):
        page.keyboard.press("j")
        first = page.get_attribute("#alerts .row", "data-number")
        server.send(flood_events(500, 300))
        page.wait_for_selector("#waiting-count:text-is('500')")
        assert page.get_attribute("#alerts .row", "data-number") == first
        page.click("#waiting a")
        page.wait_for_selector("#alerts .row[data-number='800']")
        assert not page.is_visible("#waiting a")


def numbers_shown(page: Any) -> list[int]:
    found: list[str] = page.eval_on_selector_all("#alerts .row", "rows => rows.map((row) => row.dataset.number)")
    return [int(number) for number in found]


def test_a_list_under_the_pointer_stands_still_and_catches_up_when_it_is_left(tmp_path: Path) -> None:
    with watching(tmp_path, 60) as (server, page):
        page.hover("#alerts .row")
        before = page.locator("#alerts .row").first.bounding_box()
        for begin in range(60, 160, 20):
            server.send(flood_events(20, begin))
        page.wait_for_selector("#waiting-count:text-is('100')")
        assert numbers_shown(page)[0] == 60
        assert page.locator("#alerts .row").first.bounding_box() == before
        page.mouse.move(5, 5)
        page.wait_for_selector("#alerts .row[data-number='160']")
        page.wait_for_selector("#waiting a", state="hidden")
        server.send(flood_events(3, 160))
        page.wait_for_selector("#alerts .row[data-number='163']")
        assert numbers_shown(page)[:53] == list(range(163, 110, -1))


def test_new_alerts_that_wait_are_shown_by_a_key(tmp_path: Path) -> None:
    with watching(tmp_path, 60, "/?rule=no-wipe") as (server, page):
        page.keyboard.press("j")
        page.keyboard.press("j")
        server.send(flood_events(1, 60))
        page.wait_for_selector("#waiting a:has-text('1 new alert')")
        assert page.evaluate("document.activeElement.closest('.row').dataset.number") == "59"
        page.keyboard.press(".")
        page.wait_for_selector("#alerts .row[data-number='61']")
        page.wait_for_selector("#waiting a", state="hidden")
        assert page.url.endswith("/?rule=no-wipe")
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.closest('.row').dataset.number") == "61"


def test_a_list_shows_each_alert_once_when_it_catches_up_in_a_flood(tmp_path: Path) -> None:
    with watching(tmp_path, 60) as (server, page):
        for begin in range(60, 1_260, 60):
            page.hover("#alerts .row")
            server.send(flood_events(60, begin))
            page.mouse.move(5, 5)
            shown = numbers_shown(page)
            assert shown == sorted(set(shown), reverse=True)
        page.wait_for_selector("#alerts .row[data-number='1260']")
        shown = numbers_shown(page)
        assert shown == sorted(set(shown), reverse=True)


def test_what_is_taken_off_a_list_is_where_the_older_ones_begin(tmp_path: Path) -> None:
    with served(tmp_path, FLOOD) as server, chromium_page() as page:
        page.goto(f"{server.url}/")
        page.wait_for_selector("#live.on")
        for begin in range(0, 230, 10):
            server.send(flood_events(10, begin))
            page.wait_for_selector(f"#alerts .row[data-number='{begin + 10}']")
        rows = page.locator("#alerts .row")
        last = int(rows.last.get_attribute("data-number") or 0)
        assert 100 <= rows.count() <= 200
        page.click("#alerts .next a")
        page.wait_for_selector(f"#alerts .row[data-number='{last - 1}']")
        assert page.locator(f"#alerts .row[data-number='{last}']").count() == 0


def test_a_session_of_20000_events_is_walked_from_one_end_to_the_other(tmp_path: Path) -> None:
    with served(tmp_path, demo_policy()) as server, chromium_page() as page:
        made = long_session(20_000)
        for begin in range(0, len(made), 500):
            server.send(made[begin : begin + 500])
        deadline = time.monotonic() + 120
        while server.count("sg_events") < len(made):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        page.goto(f"{server.url}/sessions/long?at=19990")
        assert page.locator(".step.here").get_attribute("id") == "e19990"
        assert page.locator(".step").last.get_attribute("id") == "e20000"
        page.click("details.states summary")
        page.wait_for_selector("details.states[open]:not(:has-text('one moment'))")
        page.goto(f"{server.url}/sessions/long")
        while page.query_selector(".next[hx-get]"):
            page.evaluate("scrollTo(0, document.body.scrollHeight)")
            page.wait_for_timeout(50)
        assert page.locator(".step").count() == 600
        assert page.evaluate("document.getElementsByTagName('*').length") < 20_000
        page.click(".next a")
        page.wait_for_selector("#e601")
        page.click(".strip", position={"x": 500, "y": 20})
        page.wait_for_selector(".step.here")
        assert 8_000 < int((page.locator(".step.here").get_attribute("id") or "e0")[1:]) < 12_000
