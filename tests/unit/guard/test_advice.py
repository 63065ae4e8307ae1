"""A refusal that an agent can use: what was found, and what would satisfy the rule."""

from __future__ import annotations

from typing import Any

import pytest

import stream_guard as sg
from stream_guard.guard.gate import Ruling
from stream_guard.guard.inline import Guard
from stream_guard.integrations.attempts import refusal_text
from stream_guard.judge.model import Action
from stream_guard.registry import build_registry

REGISTRY = build_registry()


def policy(kind: str, params: str, more: str = "") -> sg.Policy:
    return sg.parse_policy(f"rules: [{{id: r, kind: {kind}, params: {params}, then: block{more}}}]", REGISTRY)


def ask(rules: sg.Policy, tool: str, args: Any, session: str = "s") -> sg.Decision:
    return Guard(rules).check(sg.ToolCall(session_id=session, event_id="e", time=5.0, tool=tool, args=args))


def guard_params(predicate: str) -> str:
    return f"{{when: {{tool_name_in: [pay], {predicate}}}}}"


@pytest.mark.parametrize(
    ("kind", "params", "args", "passing", "found", "way"),
    [
        (
            "tool_guard",
            guard_params("arg_gt: {path: amount, value: 100}"),
            {"amount": 250},
            {"amount": 100},
            "amount is 250, over 100",
            "amount at most 100",
        ),
        (
            "tool_guard",
            guard_params("arg_lt: {path: amount, value: 1}"),
            {"amount": 0},
            {"amount": 1},
            "amount is 0, under 1",
            "amount at least 1",
        ),
        (
            "tool_guard",
            guard_params("arg_missing: {path: ticket}"),
            {},
            {"ticket": "T1"},
            "ticket is missing",
            "a ticket",
        ),
        (
            "tool_guard",
            guard_params("arg_present: {path: force}"),
            {"force": True},
            {},
            "force is true",
            "no force",
        ),
        (
            "tool_guard",
            guard_params("arg_neq: {path: currency, value: EUR}"),
            {"currency": "USD"},
            {"currency": "EUR"},
            "currency is USD, not EUR",
            "currency EUR",
        ),
        (
            "tool_guard",
            guard_params("arg_regex: {path: to, pattern: '@evil'}"),
            {"to": "a@evil.com"},
            {"to": "a@good.com"},
            'to is a@evil.com, with "@evil" in it',
            "a to that does not match @evil",
        ),
    ],
)
def test_the_predicate_the_value_and_what_would_pass_are_told_and_that_does_pass(
    kind: str, params: str, args: Any, passing: Any, found: str, way: str
) -> None:
    rules = policy(kind, params)
    refused = ask(rules, "pay", args)
    assert refused.action is Action.BLOCK
    assert refused.advice == refused.reason == f"an attempt at pay: {found}; to pass: {way}"
    assert ask(rules, "pay", passing).action is Action.ALLOW


def test_an_order_names_the_call_that_has_to_come_first_and_then_it_passes() -> None:
    guard = Guard(policy("must_call_before", "{first: Read, second: Edit, same_arg: path}"))

    def call(number: int, tool: str) -> sg.Decision:
        return guard.check(
            sg.ToolCall(session_id="s", event_id=f"e{number}", call_id=str(number), tool=tool, args={"path": "a.py"})
        )

    assert call(1, "Edit").reason == (
        "Edit of a.py was called before Read of it; to pass: call Read with path a.py first"
    )
    assert call(2, "Read").action is Action.ALLOW
    assert call(3, "Edit").action is Action.ALLOW


def test_a_reason_of_the_policy_stands_and_the_advice_goes_with_it() -> None:
    decision = ask(policy("must_call_only", "{tool: look}", ", reason: Read only."), "pay", {})
    assert decision.reason == "Read only."
    assert decision.advice == "pay was called, which is not look; to pass: call only look"
    ruling = Ruling(action=decision.action, reason=decision.reason, advice=decision.advice)
    assert refusal_text(ruling) == ("Not run: this is not allowed. Read only. To pass: call only look.")


def test_the_strictest_rule_gives_the_advice() -> None:
    text = """
rules:
  - {id: soft, kind: must_call_only, params: {tool: look}, then: pause}
  - {id: hard, kind: tool_guard, params: {when: {arg_gt: {path: amount, value: 1}}}, then: block}
"""
    assert "to pass: amount at most 1" in ask(sg.parse_policy(text, REGISTRY), "pay", {"amount": 2}).advice


def test_no_secret_is_in_a_refusal_also_where_the_text_is_cut() -> None:
    secret = "sk-ant-api03-" + "Ab3dEf6hIj9" * 8
    rules = policy("tool_guard", guard_params("arg_regex: {path: note, pattern: 'sk-ant'}"))
    decision = ask(rules, "pay", {"note": f"the key is {secret}"})
    assert decision.action is Action.BLOCK
    assert secret[:30] not in decision.reason + decision.advice


def test_what_cannot_be_judged_says_what_is_missing() -> None:
    rules = policy("tool_guard", guard_params("arg_gt: {path: amount, value: 1}"))
    assert ask(rules, "pay", "not json").advice.startswith("to pass: ")


def test_an_allowed_attempt_has_no_advice() -> None:
    assert ask(policy("no_call", "{tool: rm}"), "pay", {}).advice == ""
