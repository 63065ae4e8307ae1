"""The load that is measured: a refund agent's events of about 765 bytes, and policies of 10, 50 and 200 rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from stream_guard.demo.sessions import sample_events
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry

FILLER = (
    "The parcel left our warehouse on Tuesday, reached the depot on Wednesday and was handed to the neighbour, "
    "who signed for it; the photograph shows the damaged corner, and the scale says that nothing is missing. "
)


def event_lines(sessions: int) -> list[bytes]:
    """Return JSON lines of sample sessions, filled up to the size that events have in production."""
    return [json.dumps(_filled(event)).encode() for event in sample_events(sessions)]


def _filled(event: dict[str, Any]) -> dict[str, Any]:
    kind = event["kind"]
    if kind == "turn":
        content = event["response"]["content"]
        for block in content:
            if block["type"] == "tool_use":
                block["input"]["note"] = FILLER
        event["response"]["content"] = [{"type": "text", "text": FILLER[:120]}, *content]
    elif kind == "tool_call":
        event["args"]["note"] = FILLER
    elif kind == "tool_result":
        event["output"] = {"body": event["output"], "note": FILLER * 3}
    elif kind == "user_message":
        event["text"] += FILLER * 3
    return event


def long_session_lines(length: int, sessions: int = 1) -> Iterator[bytes]:
    """Yield sessions of one length: a turn that asks for a tool, the call, its result, over and over."""
    for number in range(sessions):
        for step in range(length):
            kind = ("turn", "tool_call", "tool_result")[step % 3]
            call_id = f"c{step // 3}"
            args = {"order_id": f"A-{number}", "amount": 40, "note": FILLER}
            event: dict[str, Any] = {
                "kind": kind,
                "event_id": f"e-{number}-{step}",
                "session_id": f"long-{number}",
                "time": 1_767_600_000.0 + step * 0.5,
                "agent": "refund-agent@3",
                "labels": {"env": "bench"},
            }
            if kind == "turn":
                block = {"type": "tool_use", "id": call_id, "name": "lookup_order", "input": args}
                usage = {"input_tokens": 20, "output_tokens": 5}
                event["request"] = {"model": "m", "messages": [{"role": "tool", "content": "ok"}]}
                event["response"] = {
                    "content": [{"type": "text", "text": FILLER}, block],
                    "stop_reason": "tool_use",
                    "usage": usage,
                }
            elif kind == "tool_call":
                event |= {"tool": "lookup_order", "call_id": call_id, "args": args}
            else:
                event |= {"tool": "lookup_order", "call_id": call_id, "output": {"note": FILLER}}
            yield json.dumps(event).encode()


_LARGE = [{"path": "labels.tier", "op": "==", "value": "large"}]
_EARLIER = ("lookup_order", "lookup_order", "quote_refund", "lookup_order", "quote_refund")
_LATER = ("quote_refund", "confirm_refund_amount", "issue_refund", "send_store_credit", "confirm_refund_amount")
_TOOLS = ("lookup_order", "quote_refund", "confirm_refund_amount", "issue_refund", "send_store_credit")
_COUNTING: list[dict[str, Any]] = [
    {"kind": "max_turns", "params": {"n": 40}},
    {"kind": "max_total_tokens", "params": {"n": 100_000}},
    {"kind": "required_stop_reason", "params": {"allowed": ["end_turn", "tool_use", "max_tokens"]}},
    {"kind": "ltl_formula", "params": {"formula": "G !tool_call:ledger_write"}},
    {"kind": "must_be_grounded", "params": {"retrieval_path": "request.metadata.chunks"}},
]
_SORRY: dict[str, Any] = {
    "trigger": [{"path": "response.stop_reason", "op": "==", "value": "max_tokens"}],
    "must": {"kind": "text_includes", "text": "sorry"},
}
_OTHERS: list[dict[str, Any]] = [
    {"kind": "must_followup", "params": _SORRY},
    {"kind": "must_include_text", "params": {"text": "refund policy"}, "when": _LARGE},
    {"kind": "forbidden_text", "params": {"pattern": "BEGIN [A-Z ]*PRIVATE KEY", "where": "tool_args"}},
    {
        "kind": "must_match_json_schema",
        "params": {"schema": {"type": "object"}},
        "when": [{"path": "labels.output", "op": "==", "value": "json"}],
    },
    {
        "kind": "must_include_text_each",
        "params": {"text": "."},
        "when": [{"path": "stop_reason", "op": "==", "value": "end_turn"}],
    },
]


def _ten_rules(number: int) -> list[dict[str, Any]]:
    """Ten of fifty rules of all kinds over what the sample sessions do, as one finds them in policies.

    Most name a tool, a fifth look for a text, some count, some have a condition; few ever fire.
    """
    first, second, tool = _EARLIER[number], _LATER[number], _TOOLS[number]
    secret = f"(?i)internal code {number}[0-9]{{3}}|password {number}"
    other = [{"path": "agent", "op": "==", "value": "other"}]
    return [
        {"kind": "must_call_before", "params": {"first": first, "second": second}},
        {"kind": "no_call", "params": {"tool": f"admin_{number}_*"}},
        {"kind": "forbidden_text", "params": {"pattern": secret}},
        {"kind": "must_remain_consistent", "params": {"path": ("tool.args.order_id", "request.model")[number % 2]}},
        _COUNTING[number],
        {"kind": "must_call_before", "params": {"first": "lookup_order", "second": second}, "when": _LARGE},
        {"kind": "no_call", "params": {"tool": f"ledger_{number}"}},
        {"kind": "forbidden_text", "params": {"text": f"case INT-{number}"}},
        {"kind": "must_call_once", "params": {"tool": tool}, "when": other},
        _OTHERS[number],
    ]


def policy(rules: int, registry: Registry) -> Policy:
    """Return a policy: up to 50 rules over what happens, the rest over tools nobody calls."""
    return load_policy(policy_text(rules), registry, file="bench.json")


def policy_text(rules: int) -> str:
    """Return the same as it stands in a file."""
    mixed = [rule for number in range(5) for rule in _ten_rules(number)]
    listed = [{"id": f"rule-{number}", **rule} for number, rule in enumerate(mixed[: 10 if rules >= 200 else rules])]
    for number in range(len(listed), rules):
        tool = f"unused_tool_{number}"
        rare: dict[str, Any] = (
            {"kind": "no_call", "params": {"tool": tool}}
            if number % 2
            else {"kind": "must_call_before", "params": {"first": "approve", "second": tool}}
        )
        listed.append({"id": f"rare-{number}", **rare})
    return json.dumps({"rules": listed})
