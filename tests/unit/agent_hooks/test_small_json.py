"""Plain JSON without ``json``: the same value, or the same error, whatever the bytes are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.agent_hooks import small_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
SIGNS = st.text(st.sampled_from('{}[]:,"\\ntrufalse0123456789-+.eE \t\r\n/b\x00\x1fué🙂'))


def both(said: bytes) -> tuple[Any, Any]:
    """Return what the small reader and the usual one make of bytes: a value as it is written, or an error."""
    found = []
    for loads in (small_json.loads, json.loads):
        try:
            found.append(repr(loads(said)))
        except ValueError as error:
            found.append(f"{type(error).__name__}: {error}")
    return found[0], found[1]


@given(VALUES, st.booleans(), st.sampled_from([None, 0, 2]))
def test_a_value_is_read_as_by_the_usual_reader_however_it_is_written(value: Any, plain: bool, indent: Any) -> None:
    text = json.dumps(value, ensure_ascii=plain, indent=indent)
    ours, usual = both(f" {text}\n".encode("utf-8", "surrogatepass"))
    assert ours == usual


@given(
    SIGNS | st.builds(lambda value, signs, at: _put(json.dumps(value), signs, at), VALUES, SIGNS, st.integers(0, 99))
)
def test_signs_that_may_be_json_are_read_or_refused_as_by_the_usual_reader(text: str) -> None:
    ours, usual = both(text.encode("utf-8", "surrogatepass"))
    assert ours == usual


def _put(text: str, signs: str, at: int) -> str:
    return text[: at % (len(text) + 1)] + signs[:3] + text[at % (len(text) + 1) :]


@pytest.mark.parametrize(
    "said",
    [
        *(b"", b"{", b'"a', b"nope", b'{"a": 1} {"b": 2}', b"[1,]", b"\xff", b'{"a": "\x01"}', b"\0", b"01", b"'a'"),
        *(
            b"-",
            b"-0",
            b"1.",
            b"1e5",
            b"NaN",
            b"truee",
            b'"\\',
            b'"\\u00e9"',
            b'"\\x"',
            b'{"a" 1}',
            b'{"a":1,}',
            b"[[]",
        ),
        *(
            b"9" * 30,
            '{"a": 1, "a": 2}'.encode("utf-16"),
            b'{"a": 1, "a": 2}',
            b"[" * 60 + b"]" * 60,
            b'["' + b"\\\\" * 9 + b'"]',
        ),
        b'{"text": "' + b"x" * 70_000 + b'", "event": "Stop"}',
    ],
)
def test_edges_of_json_are_those_of_the_usual_reader(said: bytes) -> None:
    ours, usual = both(said)
    assert ours == usual


@given(VALUES)
def test_a_value_is_written_as_by_the_usual_writer(value: Any) -> None:
    assert small_json.dumps({"said": value}) == json.dumps({"said": value})


def test_a_text_full_of_escapes_is_read_in_one_pass() -> None:
    said = json.dumps({"a": '\\"' * 10_000}).encode()
    assert small_json.loads(said) == json.loads(said)
