"""no_sequence sees the tools of its steps, and all of them where a step names none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Event, ToolCall, Turn, UserMessage
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate

REGISTRY = build_registry()
START = 1_767_600_000.0


def policy(**params: Any) -> Policy:
    rule = {"id": "steps", "kind": "no_sequence", "params": params}
    return load_policy(json.dumps({"rules": [rule]}), REGISTRY)


def call(tool: str, at: float | None) -> ToolCall:
    time = None if at is None else START + at
    return ToolCall(session_id="s", event_id=f"{tool}-{at}", time=time, tool=tool, args={})


@pytest.mark.parametrize(
    ("tool", "unjudged"),
    [("use", 1), ("other", 0)],
)
def test_only_a_call_that_may_be_a_step_is_counted_as_not_judged(tool: str, unjudged: int) -> None:
    counts = Counts()
    steps = [{"tool": "grant"}, {"tool": "use"}]
    evaluate([call("grant", 0), call(tool, None)], policy(steps=steps, within_seconds=60), counts=counts)
    assert sum(counts.lacking.values()) == unjudged


def test_steps_without_a_tool_are_found() -> None:
    said = UserMessage(session_id="s", event_id="said", time=START, text="hello")
    answer = Turn(session_id="s", event_id="answer", time=START + 1, response={"content": []})
    events: list[Event] = [said, answer]
    found = evaluate(events, policy(steps=[{"on": "user"}, {"on": "turn"}]))
    assert [finding.event_id for finding in found] == ["answer"]


def test_what_begins_anew_may_be_a_call_of_any_tool() -> None:
    steps = [{"tool": "grant"}, {"tool": "use"}]
    events = [call("grant", 0), call("other", 1), call("use", 2)]
    assert len(evaluate(events, policy(steps=steps))) == 1
    assert not evaluate(events, policy(steps=steps, unless_between={"on": "call"}))
