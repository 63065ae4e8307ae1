"""The page beside a worker, on a real broker: alerts as they come, the session behind one, rules, reviews."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests import plain_http
from tests.worker.fleet import Fleet
from tests.worker.samples import as_row

pytestmark = pytest.mark.kafka

POLICY = "rules: [{id: no-wipe, kind: no_call, params: {tool: wipe}, severity: critical, reason: Nothing is wiped.}]"


def call(number: int, tool: str) -> dict[str, object]:
    event_id = f"e{number}"
    return {"kind": "tool_call", "session_id": "s1", "event_id": event_id, "tool": tool, "time": time.time()}


def test_a_worker_shows_what_it_finds_live_and_takes_answers(fleet: Fleet, tmp_path: Path) -> None:
    fleet.policy.write_text(POLICY)
    fleet.cluster.fill(fleet.events, [as_row(call(1, "read"))])
    history = str(tmp_path / "history.db")
    name = fleet.start(options=("--no-serve", "--page"), page__port="0", history__url=history)
    fleet.wait_for(1)
    [url] = re.findall(r"page at (http://\S+)/", fleet.log_of(name))
    with plain_http.client(base_url=url, timeout=60) as page:
        with page.stream("GET", "/alerts/stream") as live:
            lines = live.iter_lines()
            assert next(lines) == "retry: 2000"  # it watches before there is anything to see
            fleet.cluster.fill(fleet.events, [as_row(call(2, "wipe"))])
            shown = next(found[1] for line in lines if (found := re.search(r'href="(/alerts/[^"]+)"', line)))
        assert "wipe was called" in page.get(shown).text
        fleet.wait_until(lambda: "Call <code><bdi>wipe" in page.get("/sessions/s1").text)
        assert "Call <code><bdi>read" in page.get("/sessions/s1").text
        assert "Nothing is wiped." in page.get("/rules/no-wipe").text
        assert shown in page.get("/rules/no-wipe").text
        waiting = page.get("/reviews").text
        [review] = set(re.findall(r'href="(/reviews/[0-9a-f-]{8,})"', waiting))
        [mark] = set(re.findall(r'name="csrf" value="([0-9a-f]+)"', page.get(review).text))
        answered = page.post(review, data={"csrf": mark, "answer": "acknowledge", "by": "ada", "note": "seen"})
        assert answered.status_code == 303
        assert review in page.get("/reviews", params={"status": "acknowledged"}).text
        with page.stream("GET", "/alerts/stream"):  # whoever still watches does not keep it from ending
            fleet.stop(name)
    assert fleet.alert_ids().total() == 1  # the topic has what the page has
