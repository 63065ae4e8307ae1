"""The diff page in a real browser: it is seen, it is silent, and hostile sessions stay text."""

from __future__ import annotations

from pathlib import Path

import pytest
from stream_guard_diff import FailOn, diff
from stream_guard_diff.deciding import decide
from stream_guard_diff.report import write_diff

from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.reports import ReportForm
from tests.browser.devtools import Browser
from tests.unit.diff.agents import edit_calls, run
from tests.unit.diff.sample import AXES, compared, session, turn

pytestmark = [pytest.mark.browser, pytest.mark.long]

HOSTILE = (
    "</bdi></div><script>window.owned = 1; fetch('http://127.0.0.1:9/')</script>"
    "<img src=http://127.0.0.1:9/x onerror='window.owned = 2'><style>body{display:none}</style>"
    "{{ 7 * 7 }}{% for %}\u202e\u2066\x00\x1b[2J"
)


def write(folder: Path, text: str, tool: str) -> Path:
    old = session(turn("hello"), turn("the same", ("look", {"q": 1})), turn("done"), name=text[:100])
    new = session(turn("hello"), turn(text, (tool, {text[:50]: text})), turn("done"), name=text[:100])
    page = folder / "diff.html"
    found = compared(old, new)
    answer = decide(found.report, fail_on=FailOn.SEVERE)
    html = write_diff(found, ReportForm.HTML, answer, candidate=text[:200])
    page.write_text(html, encoding="utf-8")
    return page


def test_the_page_shows_the_verdict_both_sessions_and_where_they_part(chromium: Browser, tmp_path: Path) -> None:
    page = write(tmp_path, "another answer", "delete_all")
    chromium.open(page)
    assert chromium.evaluate("document.getElementById('verdict').innerText").startswith("Must not merge")
    assert chromium.evaluate("document.querySelectorAll('#axes tr').length") == 11
    assert "They part here." in chromium.evaluate("document.body.innerText")
    places = "[...document.querySelectorAll('.card')].map(card => Math.round(card.getBoundingClientRect().left))"
    assert len(set(chromium.evaluate(places))) == 2, "the two sessions stand side by side"
    assert (chromium.complaints(), chromium.requests()) == ([], [page.as_uri()])


def test_changes_are_drawn_and_lead_to_the_sessions_that_show_them(chromium: Browser, tmp_path: Path) -> None:
    policy = load_policy(
        "rules: [{id: no-all, kind: no_call, params: {tool: refund_all}, severity: error}]", build_registry(), file="p"
    )
    plant = edit_calls(lambda block: block | {"name": "refund_all"})
    found = diff(run(1, 30), run(2, 30, plant=plant, share=0.4), axes=AXES, policy=policy)
    page = tmp_path / "diff.html"
    page.write_text(write_diff(found, ReportForm.HTML, decide(found.report), policy=policy), encoding="utf-8")
    chromium.open(page)
    drawn = "[...document.querySelectorAll('#measured svg')].map(one => one.getBoundingClientRect().width)"
    assert all(width > 100 for width in chromium.evaluate(drawn))
    assert len(chromium.evaluate(drawn)) >= 2
    links = "[...document.querySelectorAll('a')].map(one => !!document.querySelector(one.getAttribute('href')))"
    assert len(chromium.evaluate(links)) >= 12
    assert all(chromium.evaluate(links)), "every link leads to a session of the page"
    assert chromium.evaluate("document.querySelectorAll('details.session').length") == 30
    assert chromium.evaluate("document.querySelectorAll('ins, del').length") > 0
    assert "would have seen" in chromium.evaluate("document.body.innerText")
    assert chromium.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert (chromium.complaints(), chromium.requests()) == ([], [page.as_uri()])


@pytest.mark.parametrize("size", [1, 6000], ids=["short", "a megabyte"])
def test_a_hostile_session_is_inert(chromium: Browser, tmp_path: Path, size: int) -> None:
    page = write(tmp_path, HOSTILE * size, f"<script>window.owned = 3</script>{HOSTILE}")
    assert page.stat().st_size < 100_000
    chromium.open(page)
    assert chromium.evaluate("window.owned === undefined")
    assert chromium.evaluate("document.scripts.length + document.images.length") == 0
    assert chromium.evaluate("getComputedStyle(document.body).display") == "block"
    shown = chromium.evaluate("document.body.innerText")
    assert "<script>" in shown
    assert not {"\u202e", "\u2066", "\x1b"} & set(shown)
    assert chromium.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert (chromium.complaints(), chromium.requests()) == ([], [page.as_uri()])
