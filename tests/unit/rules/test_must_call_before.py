"""What ``must_call_before`` remembers is bounded, and comes back from a store as it was."""

from __future__ import annotations

from stream_guard_rules.must_call_before import MustCallBefore, MustCallBeforeParams, MustCallBeforeState
from stream_guard_rules.shared.lost_memory import FORGOTTEN

from stream_guard import Json, ToolCall, ToolResult
from tests.unit.rules.stored_states import stored_size


def call(args: Json, tool: str = "x", attempt: int = 0) -> ToolCall:
    return ToolCall(session_id="s", tool=tool, args=args, attempt=attempt)


def test_firsts_are_forgotten_oldest_first() -> None:
    params = MustCallBeforeParams.model_validate({"first": "confirm", "second": "refund", "same_arg": "order"})
    rule, state = MustCallBefore(params), MustCallBeforeState()
    for order in range(200):
        rule.on_tool_call(call({"order": order}, "confirm", attempt=order), state)
    assert rule.on_tool_call(call({"order": 72}, "refund", attempt=500), state) is None
    assert rule.on_tool_call(call({"order": 71}, "refund", attempt=501), state) is not None
    assert stored_size(state) <= rule.state_limit


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
