"""Digests agree with equality of JSON values."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_guard_rules.shared.json_values import digest

from stream_guard import Json, json_equal

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.integers(), st.floats(allow_nan=False), st.text(max_size=3)
)
VALUES: st.SearchStrategy[Json] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_equal_values_have_equal_digests_and_others_do_not(one: Json, other: Json) -> None:
    assert (digest(one) == digest(other)) is json_equal(one, other)


@given(VALUES)
def test_a_copy_has_the_same_digest(value: Json) -> None:
    assert digest(copy.deepcopy(value)) == digest(value)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (0, -0.0, True),
        (10**22, 1e22, True),
        ({"a": 1, "b": [2.0]}, {"b": [2], "a": 1.0}, True),
        (1, True, False),
        (0, False, False),
        (None, False, False),
        ("5", 5, False),
        ([], {}, False),
        ([[], []], [[[]]], False),
        (["ab"], ["a", "b"], False),
        ({"a": None}, {}, False),
    ],
)
def test_digest_knows_types(one: Json, other: Json, same: bool) -> None:
    assert (digest(one) == digest(other)) is same
    assert json_equal(one, other) is same


@pytest.mark.parametrize(
    "value", [float("inf"), 10**5000, "\ud800", "x" * 10**6], ids=["infinity", "long integer", "surrogate", "long text"]
)
def test_odd_values_have_a_digest_of_sixteen_characters(value: Json) -> None:
    assert len(digest(value)) == 16


def test_depth_does_not_matter() -> None:
    deep: Json = 1
    for _ in range(100_000):
        deep = [deep]
    assert digest(deep) == digest(deep)
    while isinstance(deep, list):  # taken apart by hand: freeing it at once would recurse
        deep = deep.pop()
