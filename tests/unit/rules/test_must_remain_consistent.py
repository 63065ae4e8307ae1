"""Any value can be the first one, and any value can be shown."""

from __future__ import annotations

import pytest
from stream_guard_rules.must_remain_consistent import (
    MustRemainConsistent,
    MustRemainConsistentParams,
    MustRemainConsistentState,
)

from stream_guard import Hit, Json, ToolCall
from tests.unit.rules.stored_states import stored_size


def nested(depth: int) -> Json:
    value: Json = 1
    for _ in range(depth):
        value = [value]
    return value


def call(args: Json, tool: str = "x", attempt: int = 0) -> ToolCall:
    return ToolCall(session_id="s", tool=tool, args=args, attempt=attempt)


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
    assert stored_size(anchor) <= rule.state_limit
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
