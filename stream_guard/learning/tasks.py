"""Which sessions are about the same, and how they are parted for a test: what one task says twice counts once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from stream_guard.learning.facts import SessionFacts

FOLDS: Final = 5
_SHARED: Final = 0.5  # of the values of the session that has fewer


def find_tasks(sessions: Sequence[SessionFacts]) -> None:
    """Give the sessions that are about the same things the same number. None of the groups is larger than a fold.

    Those are about the same that share most of their rare values, or some and the user's first words. A session is
    compared with the one before it that has the same value, so the time grows with the number of values.
    """
    largest = max(1, len(sessions) // FOLDS)
    groups = _Groups(len(sessions), largest)
    openings = [() if session.opening is None else (session.opening,) for session in sessions]
    for values, is_same in ((openings, _may_be_same), ([session.values for session in sessions], _is_same)):
        # What more than a fold begins with or has is a form, and not what one task is about.
        rare = [places for places in _holders(values) if len(places) <= largest]
        for places in sorted(rare, key=lambda places: (len(places), places)):
            for one, other in pairwise(places):
                if is_same(sessions[one].values, sessions[other].values):
                    groups.join(one, other)
    for place, session in enumerate(sessions):
        session.task = groups.find(place)
    counts = Counter(session.task for session in sessions)
    for session in sessions:
        session.weight = 1 / counts[session.task]


def _holders(values: Iterable[Iterable[int]]) -> list[list[int]]:
    """Return for each value that several sessions have their places."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for place, own in enumerate(values):
        for value in own:
            found[value].append(place)
    return [places for places in found.values() if len(places) > 1]


def _may_be_same(one: set[int], other: set[int]) -> bool:
    return not one or not other or bool(one & other)


def _is_same(one: set[int], other: set[int]) -> bool:
    return len(one & other) >= _SHARED * min(len(one), len(other))


class _Groups:
    """Sessions that are joined step by step, as long as no group is too large."""

    def __init__(self, count: int, largest: int) -> None:
        self._root = list(range(count))
        self._size = [1] * count
        self._largest = largest

    def find(self, place: int) -> int:
        """Return the first session of a session's group."""
        root = self._root
        while root[place] != place:
            root[place] = root[root[place]]
            place = root[place]
        return place

    def join(self, one: int, other: int) -> None:
        """Make two groups one, unless that is too large."""
        first, second = sorted((self.find(one), self.find(other)))
        if first != second and self._size[first] + self._size[second] <= self._largest:
            self._root[second] = first
            self._size[first] += self._size[second]


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
