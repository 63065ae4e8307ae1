"""Alignment finds the cheapest way, and in long sessions the right one."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from stream_guard_diff.alignment import GAP_EXTEND, GAP_OPEN, AlignedStep, Features, align, compare_cost
from stream_guard_diff.trails import read_turn

from tests.unit.diff.sample import turn

WORDS = ("alpha beta gamma", "alpha beta delta", "one two three", "")


def features(*responses: dict[str, Any]) -> list[Features]:
    return [Features(read_turn(number, {}, response)) for number, response in enumerate(responses)]


def cost_of(steps: list[AlignedStep], old: list[Features], new: list[Features]) -> float:
    total = 0.0
    before = None
    for step in steps:
        if step.is_pair:
            total += compare_cost(old[step.old], new[step.new])
        else:
            total += GAP_EXTEND if before == step.kind else GAP_OPEN
        before = step.kind
    return total


def least(old: list[Features], new: list[Features]) -> float:
    """The cheapest alignment by trying everything."""

    @cache
    def rest(i: int, j: int, gap: int) -> float:
        if i == len(old) and j == len(new):
            return 0.0
        ways = []
        if i < len(old) and j < len(new):
            ways.append(compare_cost(old[i], new[j]) + rest(i + 1, j + 1, 0))
        if j < len(new):
            ways.append((GAP_EXTEND if gap == 1 else GAP_OPEN) + rest(i, j + 1, 1))
        if i < len(old):
            ways.append((GAP_EXTEND if gap == 2 else GAP_OPEN) + rest(i + 1, j, 2))
        return min(ways)

    return rest(0, 0, 0)


responses = st.builds(
    lambda text, tools: turn(text, *((tool, {}) for tool in tools)),
    st.sampled_from(WORDS),
    st.lists(st.sampled_from("ab"), max_size=2),
)


@given(st.lists(responses, max_size=6), st.lists(responses, max_size=6))
def test_no_other_way_is_cheaper(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> None:
    old, new = features(*first), features(*second)
    steps = align(old, new, compare_cost)
    assert [step.old for step in steps if not step.is_extra] == list(range(len(old)))
    assert [step.new for step in steps if step.is_pair or step.is_extra] == list(range(len(new)))
    assert abs(cost_of(steps, old, new) - least(old, new)) < 1e-6


def numbered(count: int, change: str = "") -> list[dict[str, Any]]:
    return [
        turn(f"step {number * 7919} of the long plan {number} {change}", ("work", {"n": number}))
        for number in range(count)
    ]


def test_turns_dropped_from_the_middle_of_a_long_session_are_found() -> None:
    everything = numbered(400)
    old, new = features(*everything), features(*everything[:150], *everything[160:])
    dropped = [step.old for step in align(old, new, compare_cost) if not step.is_pair]
    assert dropped == list(range(150, 160))


def test_a_long_session_in_other_words_is_aligned_by_its_band() -> None:
    old, new = features(*numbered(300)), features(*numbered(300, "in other words"))
    steps = align(old, new, compare_cost)
    assert all(step.is_pair and step.old == step.new for step in steps)


def test_sides_of_very_unlike_lengths_are_aligned_by_shape() -> None:
    old, new = features(*numbered(1500)), features(*numbered(300, "in other words"))
    steps = align(old, new, compare_cost)
    assert sum(step.is_pair for step in steps) == 300
    assert sum(not step.is_pair for step in steps) == 1200
