"""Constructs of schemas and spellings of values: a rule that stops sees what the tool gets, and honest calls pass.

Schemas, executors and rules as people write them; what a search over Python types cannot draw.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from stream_guard.guard.inline import Guard
from stream_guard.integrations.attempts import as_handed_over
from stream_guard.judge.arguments import Executor
from stream_guard.judge.model import Action, ToolCall
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

REGISTRY = build_registry()
INTEGER, NUMBER, TEXT, FLAG = {"type": "integer"}, {"type": "number"}, {"type": "string"}, {"type": "boolean"}
ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
BIG = {"arg_gt": {"path": "amount", "value": 100}}
DEEP = {"arg_gt": {"path": "order.lines.0.price", "value": 100}}
FORCED = {"arg_eq": {"path": "opts.force", "value": True}}
LINES = {"type": "array", "items": {"type": "object", "properties": {"price": NUMBER}}}
ORDER = {"order": {"type": "object", "properties": {"lines": LINES}}}
NULLABLE = {"anyOf": [INTEGER, {"type": "null"}]}
OPTS = {"opts": {"$ref": "#/$defs/Opts"}}
OPTS_DEFS = {"Opts": {"type": "object", "properties": {"force": FLAG}}}
TREE = {"Node": {"type": "object", "properties": {"cost": INTEGER, "next": {"$ref": "#/$defs/Node"}}}}
TREE_COST = {"arg_gt": {"path": "root.next.next.cost", "value": 100}}
CHAIN = {"root": {"next": {"next": {"cost": "500"}}}}

STOPPED: list[tuple[str, Executor, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("an integer or null", "mcp", {"amount": NULLABLE}, BIG, {"amount": "500"}),
    ("a list of types", "pydantic", {"amount": {"type": ["integer", "null"]}}, BIG, {"amount": "500"}),
    ("nullable as OpenAPI says it", "pydantic", {"amount": {**INTEGER, "nullable": True}}, BIG, {"amount": "5_00"}),
    ("one of", "pydantic", {"amount": {"oneOf": [INTEGER, FLAG]}}, BIG, {"amount": "500"}),
    ("all of", "pydantic", {"amount": {"allOf": [INTEGER, {"minimum": 0}]}}, BIG, {"amount": "+500"}),
    ("text or number", "pydantic", {"amount": {"anyOf": [TEXT, INTEGER]}}, BIG, {"amount": "500"}),
    ("a decimal", "pydantic", {"amount": {"anyOf": [NUMBER, {**TEXT, "pattern": "^-?\\d+"}]}}, BIG, {"amount": "1E3"}),
    (
        "digits of another script",
        "pydantic",
        {"amount": {"anyOf": [NUMBER, TEXT]}},
        BIG,
        {"amount": "\u0665\u0660\u0660"},
    ),
    ("blanks around", "mcp", {"amount": INTEGER}, BIG, {"amount": "\t500\n"}),
    ("a float that is whole", "pydantic", {"amount": INTEGER}, BIG, {"amount": "500.000"}),
    ("an exponent", "pydantic", {"amount": NUMBER}, BIG, {"amount": "5e2"}),
    ("infinity", "pydantic", {"amount": NUMBER}, BIG, {"amount": "Infinity"}),
    ("zeros ahead", "pydantic", {"amount": INTEGER}, BIG, {"amount": "000500"}),
    ("JSON in a text", "mcp", ORDER, DEEP, {"order": '{"lines": [{"price": 500}]}'}),
    ("JSON in a text, and a number in a text in it", "mcp", ORDER, DEEP, {"order": '{"lines": [{"price": "500"}]}'}),
    ("JSON in a list of JSON", "mcp", ORDER, DEEP, {"order": {"lines": [{"price": "5e2"}]}}),
    ("JSON with escapes and blanks", "mcp", ORDER, DEEP, {"order": '\n {"l\\u0069nes": [{"price": 5E2}]}'}),
    ("nested", "pydantic", ORDER, DEEP, {"order": {"lines": [{"price": " 500"}]}}),
    (
        "a tuple",
        "pydantic",
        {"pair": {"prefixItems": [TEXT, INTEGER], "type": "array"}},
        {"arg_gt": {"path": "pair.1", "value": 100}},
        {"pair": ["x", "500"]},
    ),
    (
        "any name",
        "pydantic",
        {"limits": {"type": "object", "additionalProperties": INTEGER}},
        {"arg_gt": {"path": "limits.eu", "value": 100}},
        {"limits": {"eu": "500"}},
    ),
    (
        "names by a pattern",
        "pydantic",
        {"limits": {"type": "object", "patternProperties": {"^eu": INTEGER}}},
        {"arg_gt": {"path": "limits.eu", "value": 100}},
        {"limits": {"eu": "500"}},
    ),
    ("a schema that refers to itself", "pydantic", {"root": {"$ref": "#/$defs/Node"}}, TREE_COST, CHAIN),
    ("a reference", "pydantic", OPTS, FORCED, {"opts": {"force": "on"}}),
    ("a reference and one", "pydantic", OPTS, FORCED, {"opts": {"force": 1}}),
    ("a reference and a word with capitals", "pydantic", OPTS, FORCED, {"opts": {"force": "TRUE"}}),
    (
        "a reference in a union",
        "pydantic",
        {"opts": {"anyOf": [{"$ref": "#/$defs/Opts"}, {"type": "null"}]}},
        FORCED,
        {"opts": {"force": "yes"}},
    ),
    ("a reference and JSON in a text", "mcp", OPTS, FORCED, {"opts": '{"force": "y"}'}),
    (
        "a default",
        "pydantic",
        {"opts": {"type": "object", "properties": {"force": {**FLAG, "default": True}}}},
        FORCED,
        {"opts": {}},
    ),
    (
        "no type, but an enumeration",
        "pydantic",
        {"level": {"enum": [1, 2, 900]}},
        {"arg_gt": {"path": "level", "value": 100}},
        {"level": 900},
    ),
    (
        "an enumeration of numbers",
        "pydantic",
        {"level": {"enum": [1, 2, 900], "type": "integer"}},
        {"arg_gt": {"path": "level", "value": 100}},
        {"level": "900"},
    ),
    ("a constant", "pydantic", {"mode": {"const": True}}, {"arg_eq": {"path": "mode", "value": True}}, {"mode": True}),
    ("nothing said", "pydantic", {"amount": {}}, BIG, {"amount": 500}),
    ("nothing said, and a text", "unknown", {"amount": {}}, BIG, {"amount": "500"}),
    (
        "an id in capitals",
        "pydantic",
        {"account": {**TEXT, "format": "uuid"}},
        {"arg_eq": {"path": "account", "value": ID}},
        {"account": ID.upper()},
    ),
    (
        "an id in brackets",
        "mcp",
        {"account": {**TEXT, "format": "uuid"}},
        {"arg_eq": {"path": "account", "value": ID}},
        {"account": f"{{{ID}}}"},
    ),
    (
        "a date as a number",
        "pydantic",
        {"due": {**TEXT, "format": "date"}},
        {"arg_eq": {"path": "due", "value": "1970-01-01"}},
        {"due": 0},
    ),
    (
        "a time as a number in a text",
        "pydantic",
        {"due": {**TEXT, "format": "date-time"}},
        {"arg_regex": {"path": "due", "pattern": "^1970"}},
        {"due": "86400"},
    ),
    (
        "an address as a number",
        "pydantic",
        {"host": {**TEXT, "format": "ipv4"}},
        {"arg_eq": {"path": "host", "value": "127.0.0.1"}},
        {"host": 2130706433},
    ),
    (
        "an address of the web in capitals",
        "pydantic",
        {"url": {**TEXT, "format": "uri"}},
        {"arg_regex": {"path": "url", "pattern": "^https://evil\\.example"}},
        {"url": "HTTPS://EVIL.example/x"},
    ),
]

HONEST: list[tuple[str, Executor, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("a text of digits", "mcp", {"amount": TEXT}, BIG, {"amount": "500"}),
    ("a text of JSON", "mcp", {"opts": TEXT}, FORCED, {"opts": '{"force": true}'}),
    ("a small amount in a text", "pydantic", {"amount": INTEGER}, BIG, {"amount": "99"}),
    ("a word of no", "pydantic", OPTS, FORCED, {"opts": {"force": "off"}}),
    ("a zero", "pydantic", OPTS, FORCED, {"opts": {"force": 0}}),
    (
        "a text in an object of texts",
        "pydantic",
        {"limits": {"type": "object", "additionalProperties": TEXT}},
        {"arg_gt": {"path": "limits.eu", "value": 100}},
        {"limits": {"eu": "500"}},
    ),
    ("another argument", "mcp", {"amount": INTEGER, "note": TEXT}, BIG, {"amount": 5, "note": "1000000"}),
    (
        "another argument of JSON",
        "mcp",
        {**ORDER, "note": TEXT},
        DEEP,
        {"order": {"lines": [{"price": 1}]}, "note": "[1]"},
    ),
    (
        "another id",
        "pydantic",
        {"account": {**TEXT, "format": "uuid"}},
        {"arg_eq": {"path": "account", "value": ID}},
        {"account": ID.replace("0f8", "1f8")},
    ),
    (
        "another day",
        "pydantic",
        {"due": {**TEXT, "format": "date"}},
        {"arg_eq": {"path": "due", "value": "1970-01-01"}},
        {"due": "2026-01-02"},
    ),
    (
        "a text in a tuple",
        "pydantic",
        {"pair": {"prefixItems": [TEXT, INTEGER], "type": "array"}},
        {"arg_gt": {"path": "pair.0", "value": 100}},
        {"pair": ["500", 1]},
    ),
    ("null", "pydantic", {"amount": NULLABLE}, BIG, {"amount": None}),
    ("a text that is no number", "pydantic", {"amount": {"anyOf": [NUMBER, TEXT]}}, BIG, {"amount": "n/a"}),
]


def answer(executor: Executor, properties: dict[str, Any], when: dict[str, Any], args: dict[str, Any]) -> Action:
    rule = {"id": "r", "kind": "tool_guard", "params": {"when": {"tool_name_in": ["pay"], **when}}, "then": "block"}
    loaded = load_policy(json.dumps({"rules": [rule]}), REGISTRY, file="p.json")
    schema = {"type": "object", "properties": properties, "$defs": OPTS_DEFS | TREE}
    value, handed = as_handed_over(json.dumps(args), schema, executor)
    return Guard(loaded).check(ToolCall(session_id="s", tool="pay", call_id="c", args=value, handed=handed)).action


@pytest.mark.parametrize(("case", "executor", "properties", "when", "args"), STOPPED, ids=[one[0] for one in STOPPED])
def test_what_the_tool_gets_is_judged(case: str, executor: Executor, properties: Any, when: Any, args: Any) -> None:
    assert answer(executor, properties, when, args) is not Action.ALLOW


@pytest.mark.parametrize(("case", "executor", "properties", "when", "args"), HONEST, ids=[one[0] for one in HONEST])
def test_an_honest_call_passes(case: str, executor: Executor, properties: Any, when: Any, args: Any) -> None:
    assert answer(executor, properties, when, args) is Action.ALLOW
