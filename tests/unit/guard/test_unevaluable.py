"""What a rule cannot judge: it stops where the rule stops, the answer says so, and nothing else is held back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Action, Decision, ToolCall
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate
from stream_guard.storage.stores import MemoryStore

REGISTRY = build_registry()
AMOUNT = {"tool_name_in": ["pay"], "arg_gt": {"path": "amount", "value": 5}}
NUMBER = {"path": "tool.args.n", "op": ">", "value": 5}
BROKEN = '{"amount": 1000, "note": "urgent'
CONTESTED = '{"amount": 1000, "amount": 1}'


def guarded(params: dict[str, Any], kind: str = "tool_guard", **rule: Any) -> dict[str, Any]:
    return {"id": "r", "kind": kind, "params": params, "then": "block", **rule}


def policy(*rules: dict[str, Any], **more: Any) -> Policy:
    return load_policy(json.dumps({"rules": list(rules), **more}), REGISTRY, file="p.json")


def ask(loaded: Policy, tool: str = "pay", args: Any = BROKEN, **more: Any) -> Decision:
    return Guard(loaded).check(ToolCall(session_id="s", call_id="c", tool=tool, args=args, **more))


RULES = [
    guarded({"when": AMOUNT}),
    guarded({"when": {"not": AMOUNT, "tool_name_in": ["pay"]}}),
    guarded({"when": {"tool_name_in": ["pay"], "arg_missing": {"path": "ticket"}}}),
    guarded({"when": {"arg_regex": {"path": "to", "pattern": "evil"}}}),
    guarded({"tool": "pay"}, "no_call", when={"path": "tool.args.amount", "op": ">", "value": 5}),
    guarded({"tool": "pay"}, "no_call", unless={"path": "tool.args.ticket", "op": "exists"}),
    guarded({"tool": "pay", "n": 3}, "max_calls", key=["session", "args.to"]),
    guarded({"pattern": "drop table", "where": "tool_args"}, "forbidden_text"),
    guarded({"path": "tool.args.amount"}, "must_remain_consistent"),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule['kind']}-{sorted(rule)}")
@pytest.mark.parametrize("lacking", [{"args": BROKEN}, {"args": {}, "captured": False}], ids=["broken", "not-captured"])
def test_a_rule_that_stops_stops_what_it_cannot_judge(rule: dict[str, Any], lacking: dict[str, Any]) -> None:
    decision = ask(policy(rule), **lacking)
    assert (decision.action, decision.judged, decision.rules.unevaluable) == (Action.BLOCK, False, ("r",))
    assert "could not judge" in decision.reason


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule['kind']}-{sorted(rule)}")
def test_on_unevaluable_allow_lets_it_through_and_the_answer_still_says_so(rule: dict[str, Any]) -> None:
    decision = ask(policy({**rule, "on_unevaluable": "allow"}))
    assert (decision.action, decision.judged, decision.rules.unevaluable) == (Action.ALLOW, False, ("r",))


@pytest.mark.parametrize(
    ("then", "action"),
    [("allow", "allow"), ("pause", "pause"), ("block", "block"), ("terminate_session", "block"), (None, "allow")],
)
def test_a_doubt_stops_as_the_rule_does_but_never_ends_a_session(then: str | None, action: str) -> None:
    rule = guarded({"when": AMOUNT}) | {"then": then}
    decision = ask(policy({key: value for key, value in rule.items() if value is not None}))
    assert (decision.action.word, decision.session_ended) == (action, False)


@pytest.mark.parametrize(
    "rule",
    [
        guarded({"when": AMOUNT}),
        guarded({"tool": "pay"}, "no_call", when={"path": "tool.args.amount", "op": ">", "value": 5}),
        guarded({"pattern": "drop table", "where": "tool_args"}, "forbidden_text"),
        guarded(
            {"tool": "search"},
            "no_call",
            when=[{"path": "tool.args.n", "op": ">", "value": 5}, {"path": "agent", "op": "==", "value": "x"}],
        ),
    ],
)
def test_plain_text_for_a_tool_that_takes_text_is_no_doubt(rule: dict[str, Any]) -> None:
    decision = ask(policy(rule), "search", "refund policy for order A-10017, please")
    assert (decision.action, decision.judged) == (Action.ALLOW, True)


def test_a_rule_that_fires_on_the_raw_text_fires() -> None:
    decision = ask(policy(guarded({"pattern": "urgent", "where": "tool_args"}, "forbidden_text")))
    assert ([one.rule_id for one in decision.findings], decision.rules.unevaluable) == (["r"], ())


@pytest.mark.parametrize("args", [{"amount": float("nan")}, {"amount": "1,000"}, {"amount": "nan"}])
def test_a_number_that_is_none_is_unknown(args: dict[str, Any]) -> None:
    assert ask(policy(guarded({"when": AMOUNT, "coerce": True})), args=args).action is Action.BLOCK


@pytest.mark.parametrize("args", [CONTESTED, '{"amount": 1, "amount": 1000}', '{"x": {"a": 1, "a": 2}}'])
def test_contested_arguments_are_blocked_inline_and_found_everywhere(args: str) -> None:
    loaded = policy(guarded({"tool": "other"}, "no_call"))
    decision = ask(loaded, args=args)
    assert (decision.action, [one.rule_id for one in decision.findings]) == (
        Action.BLOCK,
        ["stream_guard_contested_call"],
    )
    recorded = ToolCall(session_id="s", call_id="c", tool="pay", args=args)
    assert [one.alert_id for one in evaluate([recorded], loaded)] == [one.alert_id for one in decision.findings]


def test_a_policy_that_only_watches_blocks_nothing() -> None:
    watching = policy(guarded({"when": AMOUNT}, mode="shadow"), guarded({"when": AMOUNT}, id="w") | {"then": "allow"})
    for args in (CONTESTED, BROKEN):
        assert ask(watching, args=args).action is Action.ALLOW


AGENTS = {"payments": {"operations": ["pay"]}, "clerk": {"operations": ["read"], "parent": "payments"}}


@pytest.mark.parametrize("agent", [{}, {"agent": "paymnets"}, {"agent": "x", "agent_path": ("payments",)}])
def test_an_unknown_agent_is_stopped_where_a_rule_of_an_agent_would_fire(agent: dict[str, Any]) -> None:
    loaded = policy(guarded({"when": AMOUNT}, agent="payments"), agents=AGENTS)
    decision = ask(loaded, args={"amount": 10}, **agent)
    assert (decision.action, decision.checked, decision.rules.unevaluable) == (Action.BLOCK, False, ("r",))
    fine = ask(loaded, args={"amount": 3}, **agent)
    assert (fine.action, fine.checked, fine.rules.not_applicable) == (Action.ALLOW, False, ("r",))


def test_an_unknown_agent_cannot_step_around_a_count() -> None:
    counted = guarded({"when": {"call_count_in_session_gt": {"tool": "pay", "value": 3}}}, agent="payments")
    assert ask(policy(counted, agents=AGENTS), args={}, agent="other").action is Action.BLOCK


def test_the_answer_names_the_rules_by_what_became_of_them() -> None:
    loaded = policy(
        guarded({"when": AMOUNT}, id="amount"),
        guarded({"tool": "other"}, "no_call", id="tool"),
        guarded({"pattern": "x", "where": "response"}, "forbidden_text", id="kind"),
        guarded({"when": AMOUNT}, id="agent", agent="clerk"),
        agents=AGENTS,
    )
    named = ask(loaded, args={"amount": 1}, agent="payments").rules
    assert (named.checked, named.not_applicable) == (("amount",), ("tool", "kind", "agent"))


@pytest.mark.parametrize("first", [{"amount": 1}, CONTESTED])
def test_contested_arguments_are_not_the_call_that_one_reader_takes_from_them(first: Any) -> None:
    guard = Guard(policy(guarded({"when": AMOUNT})))
    second = CONTESTED if first != CONTESTED else {"amount": 1}
    for args in (first, second, first):
        decision = guard.check(ToolCall(session_id="s", call_id="c", tool="pay", args=args))
        assert decision.action is (Action.BLOCK if args == CONTESTED else Action.ALLOW)


@pytest.mark.parametrize("args", [{"x": 10**30}, {"x": "\ud800"}, {"x": float("nan")}])
def test_arguments_that_no_store_can_hold_do_not_stop_the_guard(args: dict[str, Any]) -> None:
    store = MemoryStore()
    guard = Guard(policy(guarded({"when": AMOUNT}, key=["session", "args.x"])), store=store)
    for _ in range(2):
        assert guard.check(ToolCall(session_id="s", call_id="c", tool="pay", args=args)).action is Action.ALLOW
        guard.commit()


def test_arguments_of_any_depth_are_judged_and_stored() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    guard = Guard(policy(guarded({"tool": "pay"}, "no_call")), store=MemoryStore())
    for _ in range(2):
        assert guard.check(ToolCall(session_id="s", call_id="c", tool="pay", args={"x": deep})).action is Action.BLOCK
        guard.commit()
