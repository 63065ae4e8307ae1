"""JSON is checked alike with the native module and without it."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_guard.judge import json_values
from stream_guard.judge.json_values import check_json
from tests.native import twins

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "\u00e9"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def refusal(value: bytes) -> str:
    try:
        check_json(value)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.skipif(not str(json_values.__file__).endswith(".py"), reason="a compiled module cannot be patched")
@given(
    value=VALUES, cut=st.integers(0, 200), piece=st.sampled_from([b"", b'"a":1,', b"}", b"\x00", b"\\ud800", b"1e999"])
)
@example(value={"a": {"b": 1}}, cut=1, piece=b'"a":1,')
def test_the_same_is_refused_in_the_same_words(value: object, cut: int, piece: bytes) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    text = text[:cut] + piece + text[cut:]
    told = []
    for look in (None, twins.is_plain_json):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_values, "is_plain_json", look)
            told.append(refusal(text))
    assert told[0] == told[1]


@pytest.mark.parametrize("text", [b'{"a":1,"a":2}', b'{"b":[{"a":1,"\\u0061":2}]}', b"[" * 300 + b"]" * 300, b"[NaN]"])
def test_what_readers_take_differently_is_refused(text: bytes) -> None:
    assert refusal(text)
