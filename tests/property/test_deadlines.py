"""The deadlines of the compiled build: in C, they come in the order of the plain ones."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.sessions import deadlines
from tests.c_modules import open_c_module

TIMES = st.one_of(st.integers(0, 9).map(float), st.floats(allow_nan=False))
STEPS = st.one_of(
    st.tuples(st.just("push"), TIMES, st.sampled_from(["a", "b", "\xe9", "\u65e5", "\ud800", ""])),
    st.tuples(st.just("pop"), TIMES),
    st.tuples(st.just("pop")),
    st.tuples(st.just("bring_forward"), st.floats(0, 1e6)),
)


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The class of the compiled build."""
    return open_c_module(deadlines, tmp_path_factory.mktemp("c")).Deadlines


@given(st.lists(STEPS, max_size=200))
def test_both_builds_have_the_same_order(in_c: Any, steps: list[tuple[Any, ...]]) -> None:
    one, other = in_c(), deadlines.Deadlines()
    for name, *values in steps:
        assert getattr(one, name)(*values) == getattr(other, name)(*values)
        assert (one.first(), len(one)) == (other.first(), len(other))
    left = [one.pop() for _ in range(len(one) + 1)]
    assert left == [other.pop() for _ in range(len(other) + 1)]


def test_many_come_out_in_order(in_c: Any) -> None:
    waiting = in_c()
    assert waiting.first() == inf
    for number in range(1000):
        waiting.push(float(number * 7919 % 1000), f"{number * 7919 % 1000:03}")
    assert [waiting.pop(499.0) for _ in range(501)] == [*(f"{number:03}" for number in range(500)), None]
    assert waiting.first() == 500.0


@pytest.mark.parametrize(
    ("name", "values"),
    [("push", (1.0,)), ("push", ("1", "a")), ("push", (1.0, 2)), ("pop", ("1",)), ("pop", (1.0, 2.0))],
)
def test_it_says_what_it_needs(in_c: Any, name: str, values: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        getattr(in_c(), name)(*values)
