"""A run that is too deep, or one too many, gets no call through: not the second one either, in any mode."""

from __future__ import annotations

import pytest

from stream_guard.guard.inline import Guard
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Action, Event, Finding, ToolCall, Turn
from stream_guard.judge.spec import Policy
from stream_guard.testing import rule_spec
from tests.frameworks.world import KINDS


def call(number: int, run: str, *above: str) -> ToolCall:
    return ToolCall(
        session_id="s", event_id=f"e{number}", time=number, tool="t", call_id=f"c{number}", run_id=run, agent_path=above
    )


def announced(number: int, run: str, *above: str) -> Turn:
    block = {"type": "tool_use", "id": f"c{number}", "name": "t", "input": {}}
    return Turn(
        session_id="s", event_id=f"t{number}", time=number, run_id=run, agent_path=above, response={"content": [block]}
    )


@pytest.mark.parametrize(
    ("params", "fine", "wrong"),
    [({"depth": 1}, ("a", "top"), ("b", "top", "middle")), ({"runs": 1}, ("a",), ("b",))],
    ids=["depth", "runs"],
)
def test_no_call_of_such_a_run_passes_in_any_mode(
    params: dict[str, int], fine: tuple[str, ...], wrong: tuple[str, ...]
) -> None:
    policy = Policy(rules=(rule_spec(KINDS["max_delegation"], params, then=Action.BLOCK),), version="v1")
    calls = [call(1, *fine), call(2, *wrong), call(3, *wrong), call(4, *fine)]
    now = 0.0
    guard = Guard(policy, clock=lambda: now)
    answers = []
    for one in calls:
        now = one.time or 0.0
        answers.append(guard.check(one))
    assert [answer.action for answer in answers] == [Action.ALLOW, Action.BLOCK, Action.BLOCK, Action.ALLOW]
    asked = [finding.alert_id for answer in answers for finding in answer.findings]
    for mode in ("stream", "batch"):
        found: list[Finding] = []
        table = Judge(policy, mode=mode)
        for one in calls:
            found += table.feed(one).findings
        assert [finding.alert_id for finding in found] == asked
    assert len(asked) == 2


def test_calls_that_a_turn_of_such_a_run_announced_are_stopped() -> None:
    policy = Policy(rules=(rule_spec(KINDS["max_delegation"], {"depth": 0}, then=Action.BLOCK),), version="v1")
    guard = Guard(policy)
    events: list[Event] = [announced(1, "a", "top"), announced(2, "a", "top")]
    for event in events:
        guard.observe(event)
    assert [guard.check(call(number, "a", "top")).action for number in (1, 2)] == [Action.BLOCK] * 2
