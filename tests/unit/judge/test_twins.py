"""Rules that stop, asked about calls as other executors would hand them over."""

from __future__ import annotations

import json
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Action
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate
from stream_guard.storage.stores import MemoryStore

REGISTRY = build_registry()
CONTESTED = "stream_guard_contested_call"


def policy(kind: str, params: dict[str, Any], **rest: Any) -> Policy:
    rule = {"id": "r", "kind": kind, "params": params, "then": "block", **rest}
    return load_policy(json.dumps({"rules": [rule]}), REGISTRY, file="p.json")


def condition(path: str, op: str, value: Any = None) -> dict[str, Any]:
    return {"path": f"tool.args.{path}", "op": op, "value": value}


def calls(*all_args: Any) -> list[sg.ToolCall]:
    return [
        sg.ToolCall(session_id="s", event_id=f"e{n}", call_id=f"c{n}", tool="pay", time=float(n), args=args)
        for n, args in enumerate(all_args)
    ]


def answers(loaded: Policy, *all_args: Any) -> list[str]:
    guard = Guard(loaded)
    return [guard.check(call).action.word for call in calls(*all_args)]


FORCED = {"arg_in": {"path": "mode", "values": ["hard", True]}}
SUM = {"of": "call", "tool": "pay", "measure": "sum", "path": "tool.args.amount", "over": 100}
BIG = [{"path": "tool.args.amount", "op": ">", "value": 100}]

# A rule, arguments that some executor makes a hit of, and honest ones of the same shape.
CASES: list[tuple[Policy, dict[str, Any], dict[str, Any]]] = [
    (policy("tool_guard", {"when": {"arg_gt": {"path": "n", "value": 5}}}), {"n": "6"}, {"n": "5"}),
    (
        policy("tool_guard", {"when": {"arg_lte": {"path": "a.b", "value": 5}}}),
        {"a": {"b": " 5.0"}},
        {"a": {"b": "x5"}},
    ),
    (policy("tool_guard", {"when": {"arg_eq": {"path": "on", "value": True}}}), {"on": "Y"}, {"on": "n"}),
    (policy("tool_guard", {"when": {"arg_neq": {"path": "on.0", "value": False}}}), {"on": "[1]"}, {"on": "[]"}),
    (policy("tool_guard", {"when": FORCED}), {"mode": 1}, {"mode": 2}),
    (policy("tool_guard", {"when": FORCED}), {"mode": '["hard"]'.strip('[]"')}, {"mode": "soft"}),
    (policy("tool_guard", {"when": {"arg_present": {"path": "o.admin"}}}), {"o": '{"admin": 0}'}, {"o": '{"x": 0}'}),
    (
        policy("tool_guard", {"when": {"arg_regex": {"path": "o.to", "pattern": "evil"}}}),
        {"o": '{"to": "\\u0065vil"}'},
        {"o": "evil"},
    ),
    (
        policy("no_call", {"tool": "pay"}, when=condition("to", "contains", "evil")),
        {"to": '["\\u0065vil"]'},
        {"to": '["good"]'},
    ),
    (policy("no_call", {"tool": "pay"}, when=condition("n", "in", [1, 2])), {"n": "2"}, {"n": "3"}),
    (policy("no_call", {"tool": "pay"}, when=condition("n", "==", None)), {"n": "null"}, {"n": "none"}),
    (
        policy("no_call", {"tool": "pay"}, when=BIG, unless=condition("ok", "==", True)),
        {"amount": "101", "ok": "t"},
        {"amount": "1", "ok": "t"},
    ),
    (
        policy("no_call", {"tool": "pay"}, when=[*BIG, condition("code", "==", "007")]),
        {"amount": "101", "code": "007"},
        {"amount": "101", "code": "7"},
    ),
    (
        policy("no_call", {"tool": "pay"}, when=[condition("n", ">=", 1), condition("on", "==", True)]),
        {"n": "1", "on": "1"},
        {"n": "0", "on": "1"},
    ),
    (
        policy("forbidden_text", {"text": "evil", "where": "tool_args"}),
        {"to": '{"x": ["\\u0065vil"]}'},
        {"to": '{"x": "\\u0067ood"}'},
    ),
    (policy("no_pii", {"where": "tool_args", "types": ["email"]}), {"to": '["a\\u0040b.org"]'}, {"to": '["a at b"]'}),
    (policy("max_aggregate", {**SUM, "measure": "average"}), {"amount": "1e3"}, {"amount": "1e1"}),
    (
        policy("max_aggregate", {"tool": "pay", "measure": "ratio", "where": BIG[0], "over": 0.5}),
        {"amount": "101"},
        {"amount": "99"},
    ),
]


@pytest.mark.parametrize(("loaded", "bad", "fine"), CASES)
def test_what_one_executor_makes_a_hit_of_is_stopped_and_what_none_does_passes(
    loaded: Policy, bad: dict[str, Any], fine: dict[str, Any]
) -> None:
    assert (answers(loaded, bad), answers(loaded, fine)) == (["block"], ["allow"])


@pytest.mark.parametrize(("loaded", "bad", "fine"), CASES)
def test_the_stream_finds_what_the_gate_stops(loaded: Policy, bad: dict[str, Any], fine: dict[str, Any]) -> None:
    decision = Guard(loaded).check(calls(bad)[0])
    assert [one.alert_id for one in evaluate(calls(bad), loaded)] == [one.alert_id for one in decision.findings]
    assert list(evaluate(calls(fine), loaded)) == []


# A rule with a memory, and calls the last of which is too much however the values are spelt.
SEQUENCES: list[tuple[Policy, list[Any]]] = [
    (policy("max_aggregate", SUM), [{"amount": "60"}, {"amount": 30}, {"amount": "20"}]),
    (policy("max_aggregate", SUM), [{"amount": 60}, {"amount": "20"}, {"amount": 30}]),
    (policy("no_repeated_calls", {"times": 3}), [{"n": 7}, {"n": "7"}, {"n": "7.0"}]),
    (policy("max_calls", {"tool": "pay", "n": 2}, key=["session", "args.to"]), [{"to": "7"}, {"to": " 7"}, {"to": 7}]),
    (policy("max_calls", {"tool": "pay", "n": 2}, when=BIG), [{"amount": "101"}, {"amount": 101}, {"amount": "1e3"}]),
    (
        policy(
            "tool_guard", {"when": {"arg_eq": {"path": "on", "value": True}, "call_count_in_session_gt": {"value": 2}}}
        ),
        [{}, {}, {"on": "yes"}],
    ),
]


@pytest.mark.parametrize(("loaded", "sent"), SEQUENCES)
def test_a_limit_holds_however_values_are_spelt(loaded: Policy, sent: list[Any]) -> None:
    assert answers(loaded, *sent) == ["allow", "allow", "block"]


@pytest.mark.parametrize(("loaded", "sent"), SEQUENCES)
def test_a_limit_holds_over_a_restart(loaded: Policy, sent: list[Any]) -> None:
    store = MemoryStore()
    found: list[str] = []
    for call in calls(*sent):
        guard = Guard(loaded, store=store)
        found.append(guard.check(call).action.word)
        guard.commit()
    assert found == ["allow", "allow", "block"]


def test_a_twin_that_has_seen_what_its_rule_has_keeps_no_state() -> None:
    guard = Guard(policy("max_calls", {"tool": "pay", "n": 9}, when=condition("amount", ">", 0)))
    for call in calls({"amount": "-1"}, {"amount": 5}, {"amount": "x"}):
        guard.check(call)
    assert len(guard._judge.states_of("s")) == 1


@pytest.mark.parametrize(
    ("rest", "action"),
    [
        ({"then": "pause"}, Action.PAUSE),
        ({"then": "terminate_session"}, Action.BLOCK),
        ({"then": "allow"}, Action.ALLOW),
        ({"mode": "shadow"}, Action.ALLOW),
        ({"on_unevaluable": "allow"}, Action.ALLOW),
    ],
)
def test_a_doubt_stops_as_far_as_the_rule_does(rest: dict[str, Any], action: Action) -> None:
    decision = Guard(policy("no_call", {"tool": "pay"}, when=BIG, **rest)).check(calls({"amount": "101"})[0])
    assert (decision.action, decision.session_ended) == (action, False)


def test_the_answer_names_the_rule_and_the_finding_is_of_none() -> None:
    decision = Guard(policy("no_call", {"tool": "pay"}, when=BIG)).check(calls({"amount": "101"})[0])
    assert (decision.rules.unevaluable, decision.judged) == (("r",), False)
    assert [one.rule_id for one in decision.findings] == [CONTESTED]
    assert "could not judge" in decision.reason


def test_where_the_schema_is_known_only_what_the_tool_may_get_counts() -> None:
    loaded = policy("no_call", {"tool": "pay"}, when=BIG)
    [call] = calls({"amount": "101"})
    for handed, action in (((), Action.ALLOW), (({"amount": 5},), Action.ALLOW), (({"amount": 101},), Action.BLOCK)):
        asked = sg.ToolCall(session_id="s", tool="pay", args=call.args, handed=handed)
        assert Guard(loaded).check(asked).action is action


def test_more_spellings_than_anybody_could_judge_are_stopped() -> None:
    names = [f"n{n}" for n in range(9)]
    loaded = policy("no_call", {"tool": "pay"}, when={"all_of": [condition(name, ">", 5) for name in names]})
    assert answers(loaded, dict.fromkeys(names, "4")) == ["block"]
    assert answers(loaded, dict.fromkeys(names, 4)) == ["allow"]


def listing(*schemas: dict[str, Any]) -> list[sg.Event]:
    """Return turns, each of whose requests declares the tool with a schema."""
    return [
        sg.Turn(
            session_id="s",
            event_id=f"t{n}",
            time=float(n),
            request={"tools": [{"name": "pay", "input_schema": schema}]},
        )
        for n, schema in enumerate(schemas)
    ]


TEXT, NUMBER = ({"properties": {"amount": {"type": kind}}} for kind in ("string", "integer"))


@pytest.mark.parametrize(
    ("schemas", "found"), [([TEXT], []), ([TEXT, TEXT], []), ([NUMBER], [CONTESTED]), ([TEXT, NUMBER], [CONTESTED])]
)
def test_the_tools_that_a_session_declares_say_what_stays_text(schemas: list[Any], found: list[str]) -> None:
    loaded = policy("no_call", {"tool": "pay"}, when=BIG)
    events = [*listing(*schemas), *calls({"amount": "101"})]
    assert [one.rule_id for one in evaluate(events, loaded)] == found
    guard = Guard(loaded)
    for event in events[:-1]:
        guard.observe(event)
    assert guard.check(calls({"amount": "101"})[0]).action is (Action.BLOCK if found else Action.ALLOW)


def test_no_list_of_tools_fills_the_memory() -> None:
    loaded = policy("tool_guard", {"when": {"arg_gt": {"path": "amount", "value": 1}}})
    guard = Guard(loaded)
    many = [{"name": f"tool{n}", "parameters": TEXT} for n in range(500)]
    huge = {"name": "pay", "parameters": {**TEXT, "description": "x" * 100_000}}
    guard.observe(sg.Turn(session_id="s", event_id="t", request={"tools": [huge, None, 3, {"function": 4}, *many]}))
    session = guard._judge._kept.find("s")
    assert session is not None
    assert session.lasting.catalogue is not None
    assert (len(session.lasting.catalogue), session.lasting.catalogue["pay"]) == (64, None)


@pytest.mark.parametrize(
    "loaded",
    [
        policy("forbidden_text", {"text": "evil", "where": "tool_args"}),
        policy("no_repeated_calls", {"times": 3}),
        policy("no_call", {"tool": "pay"}, when=condition("x", "contains", 5)),
    ],
)
def test_arguments_of_any_depth_are_judged(loaded: Policy) -> None:
    deep: Any = ['{"a": 1}']
    for _ in range(5000):
        deep = [deep]
    guard = Guard(loaded)
    for event in listing({"properties": {"x": {"type": "integer"}}}):
        guard.observe(event)
    assert guard.check(sg.ToolCall(session_id="s", call_id="c", tool="pay", args={"x": deep})).action is Action.BLOCK


@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), "9" * 5000, "1e999", "\ud800", "\x00"])
def test_values_that_no_type_holds_stop_nothing(value: Any) -> None:
    loaded = policy("no_call", {"tool": "pay"}, when=condition("x", "==", 5))
    guard = Guard(loaded)
    for event in listing({"properties": {"x": {"type": "number"}, "y": {"type": "integer", "default": 3}}}):
        guard.observe(event)
    assert guard.check(calls({"x": value})[0]).action is Action.ALLOW
