"""Numbers in texts, where the tool's schema says number."""

from __future__ import annotations

from typing import Any

import pytest

from stream_guard.language.schema_numbers import numbers_as_typed

PROPERTIES: dict[str, Any] = {
    "amount": {"type": "number"},
    "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "order": {"type": "string"},
    "either": {"type": ["number", "string"]},
    "body": {"type": "object", "properties": {"n": {"type": "integer"}}},
    "all": {"type": "array", "items": {"type": "number"}},
}


@pytest.mark.parametrize(
    ("args", "read"),
    [
        ({"amount": "1000000"}, {"amount": 1000000}),
        ({"amount": "1e6", "count": "3"}, {"amount": 1e6, "count": 3}),
        ({"amount": "inf"}, {"amount": float("inf")}),
        ({"body": {"n": "7"}, "all": ["1", 2]}, {"body": {"n": 7}, "all": [1, 2]}),
        ({"order": "10017", "either": "5", "other": "6"}, {"order": "10017", "either": "5", "other": "6"}),
        ({"amount": "a lot", "count": None}, {"amount": "a lot", "count": None}),
        ("text", "text"),
        ([1], [1]),
    ],
)
def test_texts_are_numbers_where_the_schema_says_so(args: Any, read: Any) -> None:
    assert numbers_as_typed(args, PROPERTIES) == read


@pytest.mark.parametrize("properties", [None, [], "x", {"amount": None}, {"amount": {"type": 5, "anyOf": 3}}])
def test_a_schema_that_is_none_changes_nothing(properties: Any) -> None:
    assert numbers_as_typed({"amount": "5"}, properties) == {"amount": "5"}
