"""no_sequence sees the tools of its steps, and all of them where a step names none."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from stream_guard.errors import PolicyError
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


def test_a_sequence_is_what_a_search_through_all_choices_finds() -> None:
    chance = random.Random(7)
    hits = 0
    for _ in range(400):
        steps = [
            {"tool": chance.choice("abc"), "at_least": chance.choice((1, 1, 2))} for _ in range(chance.choice((2, 3)))
        ]
        between = {"tool": chance.choice("abcd"), "at_least": chance.choice((1, 2, 3))}
        trace = [(chance.choice("aabbccd"), at) for at in sorted(chance.sample(range(40), 10))]
        found = evaluate([call(*one) for one in trace], policy(steps=steps, within_seconds=15, unless_between=between))
        expected = [place for place in range(10) if _is_last_of_a_sequence(trace, place, steps, between)]
        assert [int(finding.time - START) for finding in found if finding.time] == [
            trace[place][1] for place in expected
        ]
        hits += len(expected)
    assert hits > 100


def _is_last_of_a_sequence(
    trace: list[tuple[str, int]], last: int, steps: list[dict[str, Any]], between: dict[str, Any]
) -> bool:
    wanted = [step["tool"] for step in steps for _ in range(step["at_least"])]
    if trace[last][0] != wanted[-1]:
        return False
    for first in range(last + 1):
        later = [tool for tool, _ in trace[first + 1 : last + 1]]
        if trace[last][1] - trace[first][1] > 15 or later.count(between["tool"]) >= between["at_least"]:
            continue
        left = list(wanted)
        for tool, _ in trace[first : last + 1]:
            if left and tool == left[0]:
                del left[0]
        if not left and trace[first][0] == wanted[0]:
            return True
    return False


@pytest.mark.parametrize("on", ["turn", "user"])
def test_a_tool_of_what_has_none_is_refused(on: str) -> None:
    with pytest.raises(PolicyError, match='"tool" is about calls and results'):
        policy(steps=[{"tool": "a"}, {"tool": "b"}], unless_between={"on": on, "tool": "a"})
