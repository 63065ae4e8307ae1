"""What ``must_call_before`` remembers is bounded, and comes back from a store as it was."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from stream_guard_rules.must_call_before import MustCallBefore, MustCallBeforeParams, MustCallBeforeState
from stream_guard_rules.shared.lost_memory import FORGOTTEN

from stream_guard import Hit, Json, ToolCall, ToolResult
from tests.unit.rules.stored_states import stored_size


def call(args: Json, tool: str = "x", attempt: int = 0) -> ToolCall:
    return ToolCall(session_id="s", tool=tool, args=args, attempt=attempt)


def test_a_second_for_a_first_that_was_forgotten_is_not_judged() -> None:
    params = MustCallBeforeParams.model_validate({"first": "confirm", "second": "refund", "same_arg": "order"})
    rule, state = MustCallBefore(params), MustCallBeforeState()
    for order in range(200):
        rule.on_tool_call(call({"order": order}, "confirm", attempt=order), state)
    assert rule.on_tool_call(call({"order": 72}, "refund", attempt=500), state) is None
    assert rule.on_tool_call(call({"order": 71}, "refund", attempt=501), state) == FORGOTTEN
    assert isinstance(rule.on_tool_call(call({"order": "never"}, "refund", attempt=502), state), Hit)
    assert stored_size(state) <= rule.state_limit


@pytest.mark.parametrize("asked", [{}, {"first_must_succeed": True}, {"within_seconds": 1e6}, {"reset_on": "close"}])
@pytest.mark.parametrize("ignored", [False, True])
def test_an_honest_session_with_thousands_of_open_keys_breaks_nothing(asked: dict[str, Json], ignored: bool) -> None:
    absent = {"if_first_absent": "ignore" if ignored else "fire"}
    params = MustCallBeforeParams.model_validate(
        {"first": "open", "second": "use", "same_arg": "file"} | asked | absent
    )
    rule, state, chance = MustCallBefore(params), MustCallBeforeState(), random.Random(5)
    opened: list[int] = []
    answers = Counter[str]()
    for attempt in range(6000):
        fresh = len(opened) < 1500 or chance.random() < 0.2
        if fresh:
            opened.append(attempt)
        args = {"file": attempt if fresh else chance.choice(opened)}
        tool = "open" if fresh else "use"
        told = ToolCall(session_id="s", tool=tool, args=args, attempt=attempt, time=float(attempt))
        answers[type(rule.on_tool_call(told, state)).__name__] += 1
        done = ToolResult(session_id="s", tool=tool, args=args, attempt=attempt, time=attempt + 0.5)
        answers[type(rule.on_tool_result(done, state)).__name__] += 1
    assert answers["Hit"] == 0
    assert answers["Unsure"] > 100
    assert stored_size(state) <= rule.state_limit


def test_what_was_forgotten_is_judged_again_when_it_would_be_too_old() -> None:
    params = MustCallBeforeParams.model_validate({"first": "a", "second": "b", "within_seconds": 60})
    rule, state = MustCallBefore(params), MustCallBeforeState()
    for attempt in range(300):
        rule.on_tool_call(ToolCall(session_id="s", tool="a", args={}, attempt=attempt, time=attempt / 100), state)
    assert rule.on_tool_call(ToolCall(session_id="s", tool="b", args={}, attempt=900, time=62.9), state) is None
    assert isinstance(rule.on_tool_call(ToolCall(session_id="s", tool="b", args={}, attempt=901, time=63), state), Hit)


def test_a_first_that_succeeds_after_it_was_forgotten_is_good_from_then_on() -> None:
    params = MustCallBeforeParams.model_validate(
        {"first": "a", "second": "b", "within_seconds": 60, "first_must_succeed": True, "same_arg": "n"}
    )
    rule, state = MustCallBefore(params), MustCallBeforeState()
    for attempt in range(300):
        args = {"n": attempt}
        rule.on_tool_call(ToolCall(session_id="s", tool="a", args=args, attempt=attempt, time=attempt / 100), state)
    rule.on_tool_result(ToolResult(session_id="s", tool="a", args={"n": 0}, attempt=0, time=90.0), state)
    assert rule.on_tool_call(call({"n": 0}, "b", attempt=900), state) == FORGOTTEN
    late = ToolCall(session_id="s", tool="b", args={"n": 0}, attempt=901, time=149.0)
    assert rule.on_tool_call(late, state) == FORGOTTEN


def test_early_seconds_are_forgotten_oldest_first_and_their_firsts_are_not_judged() -> None:
    params = MustCallBeforeParams.model_validate(
        {"first": "a", "second": "b", "same_arg": "n", "if_first_absent": "ignore"}
    )
    rule, state = MustCallBefore(params), MustCallBeforeState()
    for number in range(100):
        rule.on_tool_call(call({"n": number}, "b", attempt=number), state)
    assert rule.on_tool_call(call({"n": 67}, "a", attempt=500), state) == FORGOTTEN
    assert rule.on_tool_call(call({"n": 68}, "a", attempt=501), state) is not None
    assert stored_size(state) <= rule.state_limit


def test_attempts_that_ran_are_kept_once() -> None:
    params = MustCallBeforeParams.model_validate({"first": "confirm", "second": "refund"})
    rule, state = MustCallBefore(params), MustCallBeforeState()
    for attempt in range(50):
        rule.on_tool_call(call({}, "confirm", attempt=attempt), state)
        rule.on_tool_result(ToolResult(session_id="s", tool="confirm", attempt=attempt), state)
    assert (state.firsts, state.unlocked) == ((), True)
