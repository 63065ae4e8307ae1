"""Arguments as a tool gets them, by its schema and by who hands them over."""

from __future__ import annotations

from typing import Any

import pytest

from stream_guard.judge.arguments import MAX_NESTING, Executor, hand_over, json_in, taken_as

ORDER = {"type": "object", "properties": {"amount": {"type": "integer"}, "force": {"type": "boolean"}}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {"Order": ORDER, "Tree": {"properties": {"n": {"type": "number"}, "next": {"$ref": "#/$defs/Tree"}}}},
    "properties": {
        "amount": {"type": "number"},
        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "order": {"$ref": "#/$defs/Order"},
        "orders": {"type": "array", "items": {"allOf": [{"$ref": "#/$defs/Order"}]}},
        "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}]},
        "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
        "tree": {"$ref": "#/$defs/Tree"},
        "body": {"type": "string", "contentMediaType": "application/json", "contentSchema": ORDER},
        "note": {"type": "string"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"type": ["number", "string"]},
        "anything": {},
    },
}


@pytest.mark.parametrize("executor", ["mcp", "pydantic"])
@pytest.mark.parametrize(
    ("sent", "got"),
    [
        ({"amount": "1000000"}, {"amount": 1000000}),
        ({"amount": " +1000.5 ", "count": "3"}, {"amount": 1000.5, "count": 3}),
        ({"order": {"amount": "7", "force": "on"}}, {"order": {"amount": 7, "force": True}}),
        ({"orders": [{"amount": "7"}, {"force": 0}]}, {"orders": [{"amount": 7}, {"force": False}]}),
        ({"pair": ["1", 1]}, {"pair": [1, True]}),
        ({"limits": {"a": "1", "b": 2.0}}, {"limits": {"a": 1, "b": 2.0}}),
        ({"tree": {"next": {"next": {"n": "1e3"}}}}, {"tree": {"next": {"next": {"n": 1000.0}}}}),
        ({"body": '{"amount": "7"}'}, {"body": {"amount": 7}}),
        ({"note": "5", "maybe": "true"}, {"note": "5", "maybe": "true"}),
        ({"note": '{"amount": 1}', "maybe": "[1]"}, {"note": '{"amount": 1}', "maybe": "[1]"}),
        ({"count": None, "amount": 5}, {"count": None, "amount": 5}),
    ],
)
def test_values_are_fitted_to_the_schema_and_text_stays_text(executor: Executor, sent: Any, got: Any) -> None:
    assert hand_over(sent, SCHEMA, executor) == (got, ())


def test_an_mcp_server_reads_json_in_a_text_where_no_text_is_wanted() -> None:
    sent = {"order": '{"amount": "7"}', "orders": '[{"force": "no"}]', "count": "null"}
    got = {"order": {"amount": 7}, "orders": [{"force": False}], "count": None}
    assert hand_over(sent, SCHEMA, "mcp") == (got, ())
    others = hand_over(sent, SCHEMA, "pydantic")
    assert others is not None
    assert others.args == sent  # pydantic refuses them; should another executor take them, the rest is named


@pytest.mark.parametrize(
    ("sent", "other"),
    [
        ({"either": "5"}, {"either": 5}),  # int | str, or a Decimal: a schema does not tell
        ({"amount": [1], "x": "yes"}, {"amount": [1], "x": True}),  # the schema knows no x
        ({"order": "7"}, {"order": 7}),  # beside the schema
    ],
)
def test_what_a_schema_does_not_tell_stays_as_it_was_sent_beside_what_it_may_become(sent: Any, other: Any) -> None:
    handed = hand_over(sent, SCHEMA, "mcp")
    assert handed is not None
    assert handed.args == sent
    assert other in handed.others


def test_an_unknown_executor_may_leave_values_as_they_are_or_fit_them() -> None:
    handed = hand_over({"amount": "5", "order": '{"force": 1}', "note": "5"}, SCHEMA, "unknown")
    assert handed is not None
    assert handed.args == {"amount": "5", "order": '{"force": 1}', "note": "5"}
    assert {"amount": 5, "order": {"force": True}, "note": "5"} in handed.others
    assert hand_over({"amount": 5, "note": "5"}, SCHEMA, "unknown") == ({"amount": 5, "note": "5"}, ())


def test_defaults_are_what_a_tool_gets_for_what_is_left_out() -> None:
    inner = {"type": "object", "properties": {"force": {"type": "boolean", "default": True}}}
    schema = {"properties": {"to": {"type": "string"}, "n": {"type": "integer", "default": 3}, "order": inner}}
    handed = hand_over({"to": "x", "order": {}}, schema, "pydantic")
    assert handed == ({"to": "x", "order": {}}, ({"to": "x", "n": 3, "order": {"force": True}},))


@pytest.mark.parametrize("schema", [None, [], "x", {}, {"type": "object"}, {"properties": 3}])
def test_without_a_schema_nothing_is_known(schema: Any) -> None:
    assert hand_over({"amount": "5"}, schema, "mcp") is None


@pytest.mark.parametrize(
    "broken",
    [
        {"$ref": "#/$defs/Nobody"},
        {"$ref": "https://example.org/schema"},
        {"$ref": "#/properties/x"},
        {"type": 5},
        {"type": "file"},
        {"anyOf": 3, "properties": []},
        {"allOf": [{"$ref": "#/properties/x"}] * 3},
    ],
)
def test_a_schema_that_leads_nowhere_leaves_a_value_uncertain(broken: dict[str, Any]) -> None:
    handed = hand_over({"x": "5"}, {"properties": {"x": broken}}, "mcp")
    assert handed is not None
    assert handed.args == {"x": "5"}


def test_a_union_in_a_union_may_be_taken_in_each_of_its_ways() -> None:
    precise = {"type": "object", "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "number"}]}}
    whole = {"type": "object", "additionalProperties": {"type": "integer"}}
    schema = {"type": "object", "properties": {"limits": {"anyOf": [precise, whole, {"type": "null"}]}}}
    handed = hand_over({"limits": {"a": 100_000_000_000_000_001, "b": "2"}}, schema, "pydantic")
    assert handed is not None
    assert {"limits": {"a": 1e17, "b": 2}} in handed.others, "the first of the outer union, the last of the inner one"


def test_unions_in_unions_end() -> None:
    node: dict[str, Any] = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/N"}}] * 8}
    deep: Any = "5"
    for _ in range(50):
        deep = [deep]
    handed = hand_over({"x": deep}, {"$defs": {"N": node}, "properties": {"x": node}}, "mcp")
    assert handed is not None
    assert handed.args == {"x": deep}


def test_what_comes_in_is_not_changed() -> None:
    sent = {"order": {"amount": "7"}, "limits": {"a": "1"}}
    hand_over(sent, SCHEMA, "mcp")
    taken_as(sent, "number")
    assert sent == {"order": {"amount": "7"}, "limits": {"a": "1"}}


def test_json_that_is_nested_deeper_than_rules_look_is_read_down_to_there() -> None:
    deep = '{"amount": 1000, "x": ' + "[" * 500 + "]" * 500 + "}"
    found = json_in(deep)
    assert found["amount"] == 1000
    levels, inner = 0, found["x"]
    while inner:
        levels, inner = levels + 1, inner[0]
    assert levels < MAX_NESTING


@pytest.mark.parametrize("text", ["", " ", "7", '"x"', "null", "{", "[1", "{a: 1}", "[" * 100_000])
def test_a_text_without_an_object_or_a_list_holds_no_json(text: str) -> None:
    assert json_in(text) is None
