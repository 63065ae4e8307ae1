"""What is wrong with parameters is said when a policy is loaded, never later."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from stream_guard.registry import build_registry

KINDS = build_registry().kinds
PATH = {"path": "stop_reason", "op": "==", "value": "end_turn"}
CALL = {"kind": "tool_call", "tool_name": "x"}

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("no_call", {}, "tool"),
    ("no_call", {"tool": 5}, "expected a tool name"),
    ("no_call", {"tool": []}, "expected a tool name"),
    ("no_call", {"tool": "x", "tools": "y"}, "Extra inputs"),
    ("no_call", {"tool": "@writing"}, "unknown tool class"),
    ("must_call_once", {"tool": None}, "expected a tool name"),
    ("must_call_before", {"first": "a"}, "second"),
    ("must_call_before", {"first": "a", "second": "b", "then": "c"}, "Extra inputs"),
    ("must_call_before", {"first": "a", "second": "b", "if_first_absent": "maybe"}, "'fire' or 'ignore'"),
    ("must_call_before", {"first": "a", "second": "b", "within_seconds": 0}, "not a span of time"),
    ("must_call_before", {"first": "a", "second": "b", "same_arg": ""}, "at least 1 character"),
    ("must_call_before", {"first": "a", "second": "b", "same_arg": "x..y"}, "empty step"),
    ("must_call_before", {"first": "a", "second": "b", "first_must_succeed": "yes"}, "valid boolean"),
    ("max_turns", {"n": -1}, "greater than or equal to 0"),
    ("max_turns", {"n": 2.0}, "valid integer"),
    ("max_turns", {"n": True}, "valid integer"),
    ("max_turns", {"n": "2"}, "valid integer"),
    ("max_turns", {"n": 1, "limit": 2}, "Extra inputs"),
    ("max_total_tokens", {"limit": None}, "valid integer"),
    ("max_total_tokens", {"n": 10, "warn_at": 10}, "the warning must come first"),
    ("required_stop_reason", {"allowed": "end_turn"}, "valid list"),
    ("required_stop_reason", {"allowed": []}, "at least 1 item"),
    ("required_stop_reason", {"allowed": [None]}, "valid string"),
    ("must_include_text", {"text": ""}, "at least 1 character"),
    ("must_include_text", {"text": "\ud800"}, "unicode string"),
    ("must_include_text_each", {"text": 5}, "valid string"),
    ("forbidden_text", {}, 'either "text" or "pattern"'),
    ("forbidden_text", {"text": "a", "pattern": "b"}, 'either "text" or "pattern"'),
    ("forbidden_text", {"pattern": "(a"}, "not a usable regular expression"),
    ("forbidden_text", {"pattern": "(?=a)"}, "look-ahead"),
    ("forbidden_text", {"text": "a", "where": "thinking"}, "'response', 'tool_args'"),
    ("must_remain_consistent", {"path": "amount"}, "can never resolve"),
    ("must_remain_consistent", {"path": "user.text"}, "meant to stay the same"),
    ("must_remain_consistent", {"path": "session.turn"}, "meant to stay the same"),
    ("must_remain_consistent", {"path": "tool"}, "meant to stay the same"),
    ("must_remain_consistent", {"path": "tool.arguments.amount"}, "meant to stay the same"),
    ("must_followup", {"trigger": [PATH]}, "must"),
    ("must_followup", {"trigger": [PATH], "must": {"kind": "nope"}}, "does not match any of the expected tags"),
    ("must_followup", {"trigger": [PATH], "must": {"kind": "tool_call"}}, "tool_name"),
    ("must_followup", {"trigger": [PATH], "must": {"kind": "text_includes", "text": ""}}, "at least 1 character"),
    ("must_followup", {"must": CALL}, "trigger"),
    ("must_followup", {"trigger": [PATH], "must": CALL, "within_turns": 0}, "greater than or equal to 1"),
    ("must_followup", {"trigger": [PATH], "must": CALL, "within_turns": 65}, "less than or equal to 64"),
    ("must_followup", {"trigger": [{**PATH, "path": "tool.name"}], "must": CALL}, '"tool.name" never resolves'),
    ("must_followup", {"trigger": {"any_of": [PATH, {**PATH, "path": "user.text"}]}, "must": CALL}, "never resolves"),
    ("must_followup", {"trigger": [{**PATH, "op": "~"}], "must": CALL}, "unknown operator"),
    ("ltl_formula", {"formula": "tool_call:a U tool_call:b U tool_call:c"}, "does not chain"),
    ("ltl_formula", {"formula": ""}, "ends where an atom was expected"),
    ("ltl_formula", {"formula": "a" * 2001}, "at most 2000 characters"),
]


@pytest.mark.parametrize(("kind", "params", "why"), REFUSED, ids=[f"{kind} {why}" for kind, _, why in REFUSED])
def test_wrong_parameters_are_refused(kind: str, params: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        KINDS[kind].params_type.model_validate(params)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_survive_being_written_and_read(kind: str) -> None:
    params_type = KINDS[kind].params_type
    for example in KINDS[kind].examples:
        read = params_type.model_validate(example.params)
        assert params_type.model_validate(read.model_dump(by_alias=True, exclude_none=True)) == read
