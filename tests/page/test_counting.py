"""The page counts what the engine counts: calls, wherever they stand, and alerts that a policy would send."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

from stream_guard.history.kept_events import EventKeeper
from stream_guard.judge.model import ToolCall, ToolResult, Turn
from tests.page.house import POLICY, House


def test_trying_a_policy_says_more_for_what_it_adds_and_fewer_for_what_it_takes_away(house: House) -> None:
    calls = [ToolCall(session_id="s1", tool="read", event_id=f"e{n}", time=time.time()) for n in range(7)]
    house.keep(*calls)

    def told(text: str) -> str:
        form = {"csrf": house.policy_mark(), "text": text, "hours": "24"}
        return house.client.post("/policy", data=form).text

    # The policy in force finds the third read and those after it: five.
    assert "With the edit: 2 more, 0 fewer" in told(POLICY.replace("n: 2", "n: 0"))
    assert "With the edit: 0 more, 4 fewer" in told(POLICY.replace("n: 2", "n: 6"))
    in_shadow = told(POLICY.replace("n: 2}", "n: 2}, mode: shadow"))
    assert "With the edit: 0 more, 5 fewer" in in_shadow
    assert "5 findings of rules in shadow mode would be counted and not sent" in in_shadow


def test_calls_that_stand_in_turns_are_counted_once_on_every_page(house: House) -> None:
    blocks = [{"type": "tool_use", "id": f"c{n}", "name": "look", "input": {"n": n}} for n in range(3)]
    now = time.time()
    agent: dict[str, Any] = {"session_id": "s1", "agent": "scout"}
    turn = Turn(event_id="t", time=now, response={"content": blocks, "stop_reason": "tool_use"}, **agent)
    again = ToolCall(event_id="c", time=now, tool="look", call_id="c0", args={"n": 0}, **agent)
    failed = ToolResult(event_id="r", time=now, call_id="c1", status="error", **agent)
    house.keep(turn, again, failed)
    assert "3 calls" in house.get("/sessions")
    assert "3 calls" in house.get("/sessions/s1")
    activity = house.get("/activity")
    assert "3 calls over 24h, 0 failed" in activity  # of the agent
    assert "3 calls over 24h, 1 failed" in activity  # of the tool, which the result does not name
    house.call("wipe", session="s2", number=9)
    house.keeper.flush()
    assert house.database.read("SELECT sum(count) FROM sg_tallies WHERE what = 'tool'") == [(4,)]


def test_a_call_is_counted_once_though_the_process_that_kept_its_turn_has_ended(house: House) -> None:
    block = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    now = time.time()
    house.keep(Turn(session_id="s1", event_id="t", time=now, response={"content": [block]}))
    with closing(EventKeeper(house.database)) as other:
        other.keep([ToolCall(session_id="s1", event_id="c", time=now, tool="look", call_id="c1", args={})])
        other.flush()
    assert "1 calls" in house.get("/sessions")
