"""The event ids of the compiled build: kept in C, they are known as the plain ones are."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.sessions import seen_ids
from tests.c_modules import open_c_module

NAMES = st.one_of(
    st.integers(0, 60).map(lambda number: f"ev-{number}"),
    st.text(max_size=20),
    st.sampled_from(["", "a", "\xe9", "\u65e5" * 9, "\ud800", "x" * 16, "x" * 17, "x" * 241, "y" * 5000]),
)
CONTENTS = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))
STEPS = st.one_of(
    st.tuples(st.just("add"), NAMES, CONTENTS),
    st.tuples(st.just("content"), NAMES),
    st.tuples(st.just("stored")),
    st.tuples(st.just("again")),
)


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The class of the compiled build."""
    return open_c_module(seen_ids, tmp_path_factory.mktemp("c")).SeenIds


@given(st.lists(STEPS, max_size=120), st.sampled_from([1, 2, 3, 17, 40, 500]))
def test_both_builds_know_the_same_ids(in_c: Any, steps: list[tuple[Any, ...]], most: int) -> None:
    one, other = in_c(), seen_ids.SeenIds()
    for name, *values in steps:
        if name == "again":
            one, other, rows = in_c(), seen_ids.SeenIds(), (one.stored(), other.stored())
            one.restore(*rows[1])  # each from what the other stored
            other.restore(*rows[0])
            continue
        limit = [most] if name == "add" else []
        assert getattr(one, name)(*values, *limit) == getattr(other, name)(*values, *limit)
    assert one.stored() == other.stored()


@given(st.lists(st.binary(min_size=8, max_size=8).map(lambda key: key[:1] * 8), max_size=80), st.booleans())
def test_both_builds_restore_alike_what_no_version_stores(in_c: Any, keys: list[bytes], with_contents: bool) -> None:
    recent, older = b"".join(keys[::2]), b"".join(keys[1::2])
    contents = b"".join(number.to_bytes(8, "little") for number in range(len(keys))) if with_contents else b""
    one, other = in_c(), seen_ids.SeenIds()
    for known in (one, other):
        known.add("a", 1, 500)  # is forgotten
        known.restore(recent, older, contents)
    assert one.stored() == other.stored()


@pytest.mark.parametrize("size", [*range(260), 1023, 1024, 1025, 4096, 9999])
def test_ids_are_digests_as_a_stored_session_has_them(in_c: Any, size: int) -> None:
    known, name = in_c(), "".join(chr(33 + (number * 7919 + size) % 90) for number in range(size))
    known.add(name, 5, 500)
    assert known.stored()[0] == xxhash.xxh3_64_intdigest(name.encode()).to_bytes(8, sys.byteorder)


def test_many_are_known_until_their_generation_is_forgotten(in_c: Any) -> None:
    known = in_c()
    assert all(known.add(f"ev-{number}", number, 5000) for number in range(14_000))
    assert not any(known.add(f"ev-{number}", 1, 5000) for number in range(5000, 14_000))
    assert [known.content(f"ev-{number}") for number in (4999, 5000, 13_999)] == [None, 5000, 13_999]


@pytest.mark.parametrize(
    ("name", "values", "error"),
    [
        ("add", ("a", 1), TypeError),
        ("add", (1, 1, 1), TypeError),
        ("add", ("a", "1", 1), TypeError),
        ("add", ("a", -1, 1), OverflowError),
        ("add", ("a", 2**64, 1), OverflowError),
        ("content", (None,), TypeError),
        ("restore", (b"", b""), TypeError),
        ("restore", (b"", "", b""), TypeError),
        ("restore", (b"1234567", b"", b""), ValueError),
    ],
)
def test_it_says_what_it_needs(in_c: Any, name: str, values: tuple[Any, ...], error: type[Exception]) -> None:
    known = in_c()
    known.add("there", 7, 500)
    with pytest.raises(error):
        getattr(known, name)(*values)
    assert known.content("there") == 7
