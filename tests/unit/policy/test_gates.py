from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.judge.conditions import OPERATORS, Condition, ConditionError
from stream_guard.judge.model import Event, GateDecision, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.judge.paths import MISSING, Path
from stream_guard.policy.gates import always_holds, events_holding, events_with, never_holds
from stream_guard.policy.message_parts import Code
from stream_guard.policy.translation import flaws

EVENTS: list[Event] = [
    UserMessage(session_id="s", text="a"),
    Turn(session_id="s", request={"model": "a", "n": 1}, response={"stop_reason": "a"}),
    ToolCall(session_id="s", tool="a", args={"n": 1}),
    GateDecision(session_id="s", tool="a", action="allow", args={"n": 1}),
    ToolResult(session_id="s", tool="a", output={"n": 1}, args={"n": 1}),
]
KINDS = {
    UserMessage: "user_message",
    Turn: "turn",
    ToolCall: "tool_call",
    GateDecision: "decision",
    ToolResult: "tool_result",
}

leaves = st.fixed_dictionaries(
    {
        "path": st.sampled_from(["tool.name", "tool.args.n", "tool.result.output.n", "labels.x", "session.id"]),
        "op": st.sampled_from(["==", "!=", "exists"]),
        "value": st.sampled_from([1, "a", True, False]),
    }
)
conditions: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.fixed_dictionaries({"all_of": st.lists(inner, max_size=3)})
        | st.fixed_dictionaries({"any_of": st.lists(inner, max_size=3)})
        | st.fixed_dictionaries({"not": inner})
    ),
    max_leaves=6,
)


def codes(source: Any) -> list[tuple[tuple[str | int, ...], Code]]:
    return [(flaw.at, flaw.code) for flaw in flaws(source)]


@given(conditions)
def test_a_sound_condition_compiles_and_has_no_flaws(source: Any) -> None:
    assert list(flaws(source)) == []
    Condition(source)


wild: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.sampled_from(list(OPERATORS)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["path", "op", "value", "all_of", "any_of", "not", "x"]), inner, max_size=3)
        | st.fixed_dictionaries({"path": st.sampled_from(["model", "tool.name", "x"]), "op": inner, "value": inner})
    ),
    max_leaves=8,
)


@given(wild)
def test_a_condition_that_does_not_compile_has_flaws(source: Any) -> None:
    try:
        Condition(source)
    except ConditionError:
        assert list(flaws(source)) != []
    else:
        assert all(flaw.code == Code.DEAD_PATH for flaw in flaws(source))


@given(conditions)
def test_what_never_holds_holds_for_no_event(source: Any) -> None:
    condition = Condition(source)
    if never_holds(condition):
        assert not any(condition.holds(event) for event in EVENTS)
    if always_holds(condition):
        assert all(condition.holds(event) for event in EVENTS)


@given(conditions)
def test_a_condition_holds_only_at_the_events_it_can(source: Any) -> None:
    possible = events_holding(Condition(source).tree)
    held = {KINDS[type(event)] for event in EVENTS if Condition(source).holds(event)}
    assert held <= possible


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (5, [((), Code.CONDITION)]),
        ([5, "x"], [((0,), Code.CONDITION), ((1,), Code.CONDITION)]),
        ({}, [((), Code.CONDITION)]),
        ({"path": "model"}, [((), Code.CONDITION)]),
        ({"path": "model", "op": "=="}, [((), Code.CONDITION)]),
        ({"path": "model", "op": "=~", "value": 1}, [(("op",), Code.CONDITION)]),
        ({"path": "modelx", "op": "=~", "value": 1}, [(("path",), Code.DEAD_PATH), (("op",), Code.CONDITION)]),
        ({"path": "model", "op": "==", "value": 1, "x": 2}, [(("x",), Code.UNKNOWN_KEY)]),
        ({"path": "model", "op": ">", "value": "1"}, [(("value",), Code.CONDITION)]),
        ({"path": "model", "op": "in", "value": "1"}, [(("value",), Code.CONDITION)]),
        ({"path": "model", "op": "matches", "value": "("}, [(("value",), Code.REGEX)]),
        ({"path": "model", "op": "older_than", "value": "x"}, [(("value",), Code.CONDITION)]),
        ({"path": "model.x", "op": "exists"}, [(("path",), Code.DEAD_PATH)]),
        ({"path": "tool.arg.x", "op": "exists"}, [(("path",), Code.DEAD_PATH)]),
        ({"path": "tool.result.amount", "op": "exists"}, [(("path",), Code.DEAD_PATH)]),
        ({"path": "labels.a.b", "op": "exists"}, [(("path",), Code.DEAD_PATH)]),
        ({"path": "tool.name.x", "op": "exists"}, [(("path",), Code.DEAD_PATH)]),
        ({"path": "user.name", "op": "exists"}, [(("path",), Code.DEAD_PATH)]),
        ({"path": "session.turn.x", "op": "exists"}, [(("path",), Code.DEAD_PATH)]),
        ({"any_of": 5}, [(("any_of",), Code.CONDITION)]),
        ({"not": 5}, [(("not",), Code.CONDITION)]),
        ({"any_of": [], "all_of": []}, [(("all_of",), Code.CONDITION)]),
        ({"not": {"any_of": [{"path": "x", "op": "=="}]}}, [(("not", "any_of", 0, "path"), Code.DEAD_PATH)]),
    ],
)
def test_each_flaw_is_found_where_it_is(source: Any, expected: list[tuple[tuple[str | int, ...], Code]]) -> None:
    assert codes(source) == expected


def leaf(path: str, op: str, value: Any) -> dict[str, Any]:
    return {"path": path, "op": op, "value": value}


@pytest.mark.parametrize(
    "source",
    [
        {"any_of": []},
        [{"any_of": []}, leaf("model", "==", "x")],
        {"not": []},
        {"not": {"not": {"any_of": []}}},
        [leaf("model", "==", "a"), leaf("model", "==", "b")],
        [leaf("model", "==", "a"), {"all_of": [leaf("model", "!=", "a")]}],
        [leaf("model", "in", ["b", "c"]), leaf("model", "==", "a")],
        [leaf("tool.args.n", ">", 5), leaf("tool.args.n", "<", 5)],
        [leaf("tool.args.n", "<=", 4), leaf("tool.args.n", ">=", 5)],
    ],
)
def test_conditions_that_contradict_themselves_are_seen(source: Any) -> None:
    assert never_holds(Condition(source))


@pytest.mark.parametrize(
    "source",
    [
        [],
        {"all_of": []},
        {"not": {"any_of": []}},
        [leaf("tool.args.n", ">", 1), leaf("tool.result.status", "==", "ok")],
        {"any_of": [leaf("model", "==", "a"), leaf("model", "==", "b")]},
        [leaf("model", "==", 1), leaf("model", "==", 1.0)],
        [leaf("model", "in", ["a", "b"]), leaf("model", "==", "a")],
        [leaf("tool.args.n", ">=", 5), leaf("tool.args.n", "<=", 5)],
        [leaf("model", "==", "a"), {"not": leaf("model", "==", "a")}],
    ],
)
def test_conditions_that_may_hold_are_left_alone(source: Any) -> None:
    assert not never_holds(Condition(source))


@pytest.mark.parametrize(
    "path", ["tool", "tool.name", "tool.args.n", "tool.result.output.n", "labels", "agent", "session.id"]
)
def test_the_events_of_a_path_are_those_in_which_it_has_a_value(path: str) -> None:
    found = {KINDS[type(event)] for event in EVENTS if Path(path).find(event) is not MISSING}
    assert found == events_with(Path(path))
