"""Measures of values that belong to a task: what a call with consequences is given, and where that came from.

Nobody says which value is right for a task. One is odd that came about as wrong ones do, or that no other run of the
task gives where these agree on another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from stream_guard_diff.measures.arguments import ArgumentPlace
from stream_guard_diff.measures.items import ItemTable, SessionItem, in_spreads, surprise
from stream_guard_diff.measures.value_places import ValuePlaces
from stream_guard_diff.measures.wrong_values import weigh_values
from stream_guard_diff.trails import SessionTrail

AGREE: Final = 2  # other runs of the task that give the same value, from which on another one is odd
MOST: Final = 0.5  # share of the other runs that must give it
_LOOKS_WRONG: Final = 0.3  # from which evidence on a session is counted

Given = Mapping[ArgumentPlace, frozenset[str]]


def measure_task_values(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Add the axis task_values."""
    places = [ValuePlaces(trail) for trail in trails]
    mates = table.mates()
    found = weigh_values(places, mates)
    rows = [_values_of(one) for one in places]
    odd = [_oddness(rows[row], [rows[mate] for mate in others]) for row, others in enumerate(mates)]
    says = "gives a call with consequences a value that looks wrong, or that no other run of its task gives"
    table.add(
        SessionItem("task_values", says, 1),
        [
            strange > 0 or max(one.of_all, one.of_rivals) >= _LOOKS_WRONG
            for strange, one in zip(odd, found, strict=True)
        ],
        evidence=np.sum([in_spreads(values) for values in (*zip(*found, strict=True), odd)], axis=0).tolist(),
    )


def _values_of(places: ValuePlaces) -> Given:
    """Return what a session gives each argument of its calls with consequences."""
    found: dict[ArgumentPlace, set[str]] = {}
    for value in places.values:
        found.setdefault(value.place, set()).add(value.text)
    return {place: frozenset(values) for place, values in found.items()}


def _oddness(mine: Given, others: Sequence[Given]) -> float:
    """Return how odd the oddest argument is: the more of the other runs agree on what it should be, the more."""
    oddest = 0.0
    for place, values in mine.items():
        theirs = Counter(row[place] for row in others if place in row)
        if not theirs:
            continue
        agreed, count = theirs.most_common(1)[0]
        known = frozenset[str]().union(*theirs)
        if count >= max(AGREE, MOST * theirs.total()) and not values <= known and agreed != values:
            oddest = max(oddest, surprise(0, count))
    return oddest
