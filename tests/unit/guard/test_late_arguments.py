"""A turn may announce a call without its arguments. Those that come with the call are judged, wherever rules run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stream_guard.guard.inline import Guard
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Action, Event, Finding, Json, ToolCall
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate
from stream_guard.testing import events

REGISTRY = build_registry()
OVER = {"arg_gt": {"path": "amount", "value": 5}}
OFFERED = {"tools": [{"name": "pay", "parameters": {"properties": {"amount": {"type": "integer"}}}}]}
RULES: list[tuple[dict[str, Any], Json]] = [  # each with an amount that it stops; it lets 1 pass
    ({"kind": "tool_guard", "params": {"when": {"tool_name_in": ["pay"], **OVER}}}, 1000),
    ({"kind": "tool_guard", "params": {"when": {"any_of": [{"tool_name_in": ["mail"]}, {"all_of": [OVER]}]}}}, 1000),
    ({"kind": "tool_guard", "params": {"when": {"not": {"arg_lte": {"path": "amount", "value": 5}}}}}, 1000),
    ({"kind": "no_call", "params": {"tool": "pay"}, "when": {"path": "tool.args.amount", "op": ">", "value": 5}}, 9),
    ({"kind": "must_be_offered", "params": {"checks": ["types"]}}, "1000"),
]
EVERY_RULE = pytest.mark.parametrize(("rule", "wrong"), RULES, ids=lambda part: json.dumps(part)[:60])


def policy(rule: dict[str, Any]) -> Policy:
    return load_policy(json.dumps({"rules": [{"id": "r", "then": "block", **rule}]}), REGISTRY, file="p.json")


def announced(amount: Json) -> list[Event]:
    turn = {"turn": None, "calls": [{"tool": "pay", "id": "c1", "args": None}], "request": OFFERED}
    return events([turn, {"call": "pay", "id": "c1", "args": {"amount": amount}}])


@EVERY_RULE
def test_a_gate_judges_the_arguments_that_it_is_asked_about(rule: dict[str, Any], wrong: Json) -> None:
    for amount, action in ((1, Action.ALLOW), (wrong, Action.BLOCK)):
        guard = Guard(policy(rule))
        turn, call = announced(amount)
        assert isinstance(call, ToolCall)
        guard.observe(turn)
        assert guard.check(call).action is action


@EVERY_RULE
def test_what_comes_later_is_found_on_the_stream_and_in_batch(rule: dict[str, Any], wrong: Json) -> None:
    for amount, expected in ((1, []), (wrong, ["s-1"])):
        told, streamed = announced(amount), list[Finding]()
        table = Judge(policy(rule), mode="stream")
        for event in told:
            streamed += table.feed(event).findings
        assert [finding.event_id for finding in streamed] == expected
        assert [finding.event_id for finding in evaluate(told, policy(rule))] == expected


def test_a_call_that_is_made_again_is_found_although_turns_leave_its_arguments_out() -> None:
    bare = [{"turn": None, "calls": [{"tool": "pay", "id": f"c{number}", "args": None}]} for number in range(3)]
    full = [{"call": "pay", "id": f"c{number}", "args": {"amount": 1}} for number in range(3)]
    told = events([event for pair in zip(bare, full, strict=True) for event in pair])
    repeats = policy({"kind": "no_repeated_calls", "params": {"times": 3}})
    assert [finding.event_id for finding in evaluate(told, repeats)] == ["s-5"]
