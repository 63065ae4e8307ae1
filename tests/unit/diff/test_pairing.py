"""Sessions are paired by task, by id, by what was asked, or not at all; never by position unless that is asked for."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_guard_diff.pairing import Pairing, best_pairs, pair_trails
from stream_guard_diff.trails import SessionTrail, read_trails

from stream_guard.judge.model import Event
from tests.unit.diff.agents import run
from tests.unit.diff.sample import session, turn

TASKS = 20


def trails(*runs: list[Event], labels: bool = True, shuffle: int = 0) -> list[SessionTrail]:
    made = [
        trail
        for events in runs
        for trail in read_trails(events if labels else [msgspec.structs.replace(one, labels={}) for one in events])
    ]
    if shuffle:
        random.Random(shuffle).shuffle(made)
    return made


def task_of(trail: SessionTrail) -> str:
    return trail.session_id.rpartition("-")[2]


def wrong(old: Sequence[SessionTrail], new: Sequence[SessionTrail], found: Pairing) -> list[str]:
    return [
        stratum.name
        for stratum in found.strata
        if len(
            {task_of(old[place]) for place in stratum.baseline} | {task_of(new[place]) for place in stratum.candidate}
        )
        != 1
    ]


@pytest.mark.parametrize("labels", [True, False], ids=["labels", "no labels"])
@pytest.mark.parametrize(
    ("before", "after"),
    [([1], [2]), ([1, 2], [3, 4]), ([1, 2, 3], [4])],
    ids=["renamed and shuffled", "two trials a task", "three trials against one"],
)
def test_sessions_of_one_task_are_together(before: list[int], after: list[int], labels: bool) -> None:
    old = trails(*(run(seed, TASKS) for seed in before), labels=labels)
    new = trails(*(run(seed, TASKS) for seed in after), labels=labels, shuffle=7)
    found = pair_trails(old, new)
    assert not wrong(old, new, found)
    assert {stratum.how for stratum in found.strata} == {"label" if labels else "content"}
    assert sum(len(stratum.pairs) for stratum in found.strata) == TASKS * min(len(before), len(after))
    assert sum(len(stratum.baseline) for stratum in found.strata) == len(old)
    assert not found.left_out


@pytest.mark.parametrize("labels", [True, False], ids=["labels", "no labels"])
def test_a_task_that_one_side_lacks_is_left_out_and_the_report_says_why(labels: bool) -> None:
    old = trails(run(1, TASKS), labels=labels)
    new = trails(run(2, TASKS), labels=labels, shuffle=3)[: TASKS // 2]
    found = pair_trails(old, new)
    assert not wrong(old, new, found)
    assert len(found.left_out) == TASKS // 2
    assert all("candidate" in why for _, _, why in found.left_out)


def test_one_shared_id_does_not_leave_the_others_out() -> None:
    old = trails(run(1, TASKS, name="a"), labels=False)
    new = trails(run(2, TASKS, name="b"), labels=False, shuffle=5)
    renamed = msgspec.structs.replace(old[0].recording, session_id=new[3].session_id)
    old[0] = SessionTrail(renamed, old[0].steps, old[0].labels)
    found = pair_trails(old, new)
    assert sorted(stratum.how for stratum in found.strata)[:2] == ["content", "content"]
    assert sum(stratum.how == "id" for stratum in found.strata) == 1
    assert sum(len(stratum.pairs) for stratum in found.strata) >= TASKS - 1


def test_without_anything_to_pair_by_the_sides_are_two_samples() -> None:
    old = [trail for number in range(5) for trail in read_trails(session(turn("hi"), name=f"a{number}"))]
    new = [trail for number in range(6) for trail in read_trails(session(turn("hi"), name=f"b{number}"))]
    found = pair_trails(old, new)
    assert [(stratum.how, len(stratum.baseline), len(stratum.candidate)) for stratum in found.strata] == [
        ("samples", 5, 6)
    ]
    assert found.strata[0].pairs == ()
    by_position = pair_trails(old, new, by="position")
    assert [stratum.pairs for stratum in by_position.strata] == [((place, place),) for place in range(5)]
    assert len(by_position.left_out) == 1


def test_a_label_that_the_user_names_pairs() -> None:
    def labelled(prefix: str) -> list[SessionTrail]:
        return [
            SessionTrail(trail.recording, trail.steps, {"case": trail.session_id.removeprefix(prefix)})
            for number in range(4)
            for trail in read_trails(session(turn("hi"), name=f"{prefix}{number}"))
        ]

    found = pair_trails(labelled("a"), labelled("b")[::-1], label="case")
    assert [stratum.pairs for stratum in found.strata] == [((place, 3 - place),) for place in range(4)]


@given(st.integers(1, 6), st.integers(1, 7), st.randoms(use_true_random=False))
def test_the_best_pairs_are_the_best_of_all_ways_to_pair(rows: int, columns: int, drawn: random.Random) -> None:
    from itertools import permutations

    alike = np.array([[drawn.random() for _ in range(columns)] for _ in range(rows)])
    found = best_pairs(alike)
    if rows > columns:
        alike, found = alike.T, [(column, row) for row, column in found]
    best = max(
        sum(alike[row, column] for row, column in enumerate(ways))
        for ways in permutations(range(alike.shape[1]), alike.shape[0])
    )
    assert len({row for row, _ in found}) == len({column for _, column in found}) == min(rows, columns)
    assert sum(alike[pair] for pair in found) == pytest.approx(best)
