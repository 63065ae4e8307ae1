"""Which sessions are about the same, and how they are parted for a test: what one task says twice counts once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from stream_guard.learning.facts import SessionFacts

FOLDS: Final = 5
_SHARED: Final = 0.5  # of the values of the session that has fewer


def find_tasks(sessions: Sequence[SessionFacts]) -> None:
    """Give the sessions that are about the same things the same number. None of the groups is larger than a fold.

    A session is compared with the one before it that has the same value, so the time grows with the number of values.
    """
    holders: defaultdict[int, list[int]] = defaultdict(list)
    for place, session in enumerate(sessions):
        for value in session.values:
            holders[value].append(place)
    largest = max(1, len(sessions) // FOLDS)
    root, size = list(range(len(sessions))), [1] * len(sessions)
    for _, places in sorted((len(found), found) for found in holders.values() if 1 < len(found) <= largest):
        for one, other in pairwise(places):
            if _is_same(sessions[one].values, sessions[other].values):
                _join(root, size, one, other, largest)
    for place, session in enumerate(sessions):
        session.task = _find(root, place)
    counts: defaultdict[int, int] = defaultdict(int)
    for session in sessions:
        counts[session.task] += 1
    for session in sessions:
        session.weight = 1 / counts[session.task]


def _is_same(one: set[int], other: set[int]) -> bool:
    return len(one & other) >= _SHARED * min(len(one), len(other))


def _find(root: list[int], place: int) -> int:
    while root[place] != place:
        root[place] = root[root[place]]
        place = root[place]
    return place


def _join(root: list[int], size: list[int], one: int, other: int, largest: int) -> None:
    first, second = sorted((_find(root, one), _find(root, other)))
    if first != second and size[first] + size[second] <= largest:
        root[second] = first
        size[first] += size[second]


def fold_of(sessions: Sequence[SessionFacts]) -> dict[str, int]:
    """Return the fold of each session: whole tasks, and folds of about the same size."""
    by_task: defaultdict[int, list[str]] = defaultdict(list)
    for session in sessions:
        by_task[session.task].append(session.session_id)
    sizes = [0] * FOLDS
    folds: dict[str, int] = {}
    for members in sorted(by_task.values(), key=lambda found: (-len(found), found[0])):
        smallest = sizes.index(min(sizes))
        sizes[smallest] += len(members)
        folds |= dict.fromkeys(members, smallest)
    return folds
