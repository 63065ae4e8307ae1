"""Deadlines come in order: by time, then by the id of the session."""

from __future__ import annotations

from math import inf
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stream_guard.judge.kept import Deadlines

TIMES = st.one_of(st.integers(0, 9).map(float), st.floats(allow_nan=False))
STEPS = st.one_of(
    st.tuples(st.just("push"), TIMES, st.sampled_from(["a", "b", "\xe9", "\u65e5", "\ud800", ""])),
    st.tuples(st.just("pop"), TIMES),
    st.tuples(st.just("bring_forward"), st.floats(0, 1e6)),
)


@given(st.lists(STEPS, max_size=200))
def test_the_earliest_comes_first_whatever_was_pushed(steps: list[tuple[Any, ...]]) -> None:
    deadlines, sorted_list = Deadlines(), list[tuple[float, str]]()
    for name, *values in steps:
        if name == "push":
            sorted_list.append((values[0], values[1]))
            deadlines.push(*values)
        elif name == "bring_forward":
            sorted_list = [(time - values[0], whose) for time, whose in sorted_list]
            deadlines.bring_forward(*values)
        else:
            due = [one for one in sorted_list if one[0] <= values[0]]
            if due:
                sorted_list.remove(min(due))
            assert deadlines.pop(*values) == (min(due)[1] if due else None)
        sorted_list.sort()
        assert deadlines.first() == (sorted_list[0][0] if sorted_list else inf)
