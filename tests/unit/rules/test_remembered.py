"""What rules remember stays small and comes back from a store as it was."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from stream_guard_rules.consistency import MustRemainConsistent, MustRemainConsistentParams, MustRemainConsistentState
from stream_guard_rules.followup import MustFollowup, MustFollowupParams, MustFollowupState
from stream_guard_rules.response import RequiredStopReason, RequiredStopReasonParams
from stream_guard_rules.sequence import MustCallBefore, MustCallBeforeParams, MustCallBeforeState

from stream_guard import Hit, Json, NoState, ToolCall, ToolResult, Turn


def nested(depth: int) -> Json:
    value: Json = 1
    for _ in range(depth):
        value = [value]
    return value


def call(args: Json, tool: str = "x", attempt: int = 0) -> ToolCall:
    return ToolCall(session_id="s", tool=tool, args=args, attempt=attempt)


def stored(state: Any) -> int:
    """Check that the state survives being stored, and return its size."""
    data = msgspec.msgpack.encode(state)
    assert msgspec.msgpack.decode(data, type=type(state)) == state
    return len(data)


@pytest.mark.parametrize(
    "value",
    [2**70, "\ud800", "x" * 10_000, nested(900), {"a": ["\ud800"]}, list(range(1000)), 0.1, -(2**63), {"k": [1, None]}],
    ids=[
        "long integer",
        "surrogate",
        "long text",
        "deep",
        "surrogate inside",
        "long list",
        "fraction",
        "least integer",
        "small",
    ],
)
def test_any_value_can_be_the_first_one(value: Json) -> None:
    rule = MustRemainConsistent(MustRemainConsistentParams.model_validate({"path": "tool.args.value"}))
    anchor = MustRemainConsistentState()
    assert rule.on_tool_call(call({"value": value}), anchor) is None
    assert stored(anchor) <= rule.state_limit
    assert rule.on_tool_call(call({"value": value}), anchor) is None
    hit = rule.on_tool_call(call({"value": "another"}), anchor)
    assert isinstance(hit, Hit)
    assert len(hit.evidence["first"]) <= 200


@pytest.mark.parametrize("value", [nested(900), "\ud800", ["\ud800"], "x" * 1000])
def test_any_value_can_be_shown(value: Json) -> None:
    rule = MustRemainConsistent(MustRemainConsistentParams.model_validate({"path": "tool.args.value"}))
    anchor = MustRemainConsistentState()
    rule.on_tool_call(call({"value": 1}), anchor)
    hit = rule.on_tool_call(call({"value": value}), anchor)
    assert isinstance(hit, Hit)
    assert len(hit.evidence["now"]) <= 200


def test_firsts_are_forgotten_oldest_first() -> None:
    params = MustCallBeforeParams.model_validate({"first": "confirm", "second": "refund", "same_arg": "order"})
    rule, state = MustCallBefore(params), MustCallBeforeState()
    for order in range(200):
        rule.on_tool_call(call({"order": order}, "confirm", attempt=order), state)
    assert rule.on_tool_call(call({"order": 72}, "refund", attempt=500), state) is None
    assert rule.on_tool_call(call({"order": 71}, "refund", attempt=501), state) is not None
    assert stored(state) <= rule.state_limit


def test_early_seconds_are_forgotten_oldest_first() -> None:
    params = MustCallBeforeParams.model_validate(
        {"first": "a", "second": "b", "same_arg": "n", "if_first_absent": "ignore"}
    )
    rule, state = MustCallBefore(params), MustCallBeforeState()
    for number in range(100):
        rule.on_tool_call(call({"n": number}, "b", attempt=number), state)
    assert rule.on_tool_call(call({"n": 67}, "a", attempt=500), state) is None
    assert rule.on_tool_call(call({"n": 68}, "a", attempt=501), state) is not None
    assert stored(state) <= rule.state_limit


def test_attempts_that_ran_are_kept_once() -> None:
    params = MustCallBeforeParams.model_validate({"first": "confirm", "second": "refund"})
    rule, state = MustCallBefore(params), MustCallBeforeState()
    for attempt in range(50):
        rule.on_tool_call(call({}, "confirm", attempt=attempt), state)
        rule.on_tool_result(ToolResult(session_id="s", tool="confirm", attempt=attempt), state)
    assert (state.firsts, state.unlocked) == ((), True)


def test_pending_follow_ups_are_bounded() -> None:
    params = MustFollowupParams.model_validate(
        {"trigger": [], "must": {"kind": "text_includes", "text": "z"}, "within_turns": 64, "within_seconds": "1h"}
    )
    rule, state = MustFollowup(params), MustFollowupState()
    hits = [rule.on_turn(Turn(session_id="s", index=index, time=1.7e9), state) for index in range(200)]
    assert [hit is not None for hit in hits] == [False] * 64 + [True] * 136
    assert stored(state) <= rule.state_limit


@pytest.mark.parametrize("reason", [["end_turn"], {"end_turn": 1}, 5, True])
def test_stop_reason_of_any_type_is_judged(reason: Json) -> None:
    rule = RequiredStopReason(RequiredStopReasonParams(allowed=["end_turn"]))
    assert rule.on_turn(Turn(session_id="s", response={"stop_reason": reason}), NoState()) is not None
