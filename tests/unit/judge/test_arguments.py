"""Arguments as text: read as executors read them, and contested where other readers take something else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.judge.arguments import MAX_NESTING, bounded, mend_text, read_arguments

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abé", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(values.filter(lambda value: not isinstance(value, str)), st.booleans(), st.integers(0, 1))
def test_what_all_readers_read_alike_is_read_so(value: Any, ascii_only: bool, wrapped: int) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    for _ in range(wrapped):
        text = json.dumps(text)
    assert read_arguments(text) == (mend_text(value), False, "")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"a": 1, "\\u0061": 2}', {"a": 2}),
        ('{"x": [{"a": 1, "a": "2"}]}', {"x": [{"a": "2"}]}),
        ('"{\\"a\\": 1, \\"a\\": 2}"', {"a": 2}),
        ('{"amount": 1, "\uff41mount": 2}', {"amount": 1, "\uff41mount": 2}),
        ('{"amount": 1, "am\\u200bount": 2}', {"amount": 1, "am\u200bount": 2}),
        ('{"a": 18446744073709551616}', {"a": 18446744073709551616.0}),
        ('{"a": -9223372036854775809}', {"a": -9223372036854775809.0}),
        ('{"a": 1' + 400 * "0" + "}", {"a": float("inf")}),
    ],
)
def test_what_readers_differ_on_is_read_as_python_does_and_contested(text: str, value: Any) -> None:
    found = read_arguments(text)
    assert (found.value, found.unreadable) == (value, False)
    assert found.contested


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, "a": 1.0}', {"a": 1}),
        ('{"a": Infinity, "b": -Infinity, "c": 1e999}', {"a": float("inf"), "b": -float("inf"), "c": float("inf")}),
        ('{"id": 1234567890123456789}', {"id": 1234567890123456789}),
        ('{"amount": 20, "fee": {"amount": 1000000}}', {"amount": 20, "fee": {"amount": 1000000}}),
        ('{"größe": 1, "grösse": 2}', {"größe": 1, "grösse": 2}),
        ('{"a": "\\ud83d\\ude00 \\ud800"}', {"a": "\U0001f600 \ufffd"}),
        ("[" * MAX_NESTING + "]" * MAX_NESTING, json.loads("[" * MAX_NESTING + "]" * MAX_NESTING)),
        ("", {}),
        ("null", None),
    ],
)
def test_odd_text_with_one_reading_is_not_contested(text: str, value: Any) -> None:
    assert read_arguments(text) == (value, False, "")


@pytest.mark.parametrize(
    "text", ["amount=3", '{"a": 1', '{"a": "\t"}', "{'a': 1}", '{"a": 1} x', "[" * 90_000, '"words"']
)
def test_text_that_is_not_json_is_kept(text: str) -> None:
    assert read_arguments(text) == (text, True, "")


def test_json_too_deep_for_some_readers_is_kept_as_text_and_contested() -> None:
    text = '{"amount": 1, "x": ' + "[" * 250 + "]" * 250 + "}"
    found = read_arguments(text)
    assert (found.value, found.unreadable) == (text, True)
    assert "200 levels" in found.contested


@pytest.mark.parametrize("levels", [MAX_NESTING + 1, 100_000])
def test_arguments_of_a_framework_that_are_too_deep_become_a_text(levels: int) -> None:
    args: Any = []
    for _ in range(levels - 1):
        args = [args]
    assert isinstance(bounded({"x": args}), str)
    assert bounded({"a": "\ud800"}) == {"a": "\ufffd"}
