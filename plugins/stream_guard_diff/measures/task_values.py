"""Measures of values that belong to a task: what a call with consequences is given, beside other runs of the task.

Nobody says which value is right for a task. Where other runs of it agree on one, another one is odd.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Final

from stream_guard import ToolPattern
from stream_guard_diff.measures.arguments import ArgumentPlace, calls_of, leaves_of
from stream_guard_diff.measures.items import ItemTable, SessionItem, surprise
from stream_guard_diff.trails import SessionTrail

CONSEQUENTIAL: Final = ToolPattern(["@write", "@money", "@egress"])
AGREE: Final = 2  # other runs of the task that give the same value, from which on another one is odd
MOST: Final = 0.5  # share of the other runs that must give it
_MOST_VALUES: Final = 200  # of one session


def measure_task_values(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Add the axis task_values."""
    rows = [_values_of(trail) for trail in trails]
    evidence = [_oddness(rows[row], [rows[mate] for mate in mates]) for row, mates in enumerate(table.mates())]
    says = "gives a call with consequences a value that no other run of its task gives"
    table.add(SessionItem("task_values", says, 1), [value > 0 for value in evidence], evidence=evidence)


def _values_of(trail: SessionTrail) -> dict[ArgumentPlace, frozenset[str]]:
    """Return what a session gives each argument of its calls with consequences."""
    found: dict[ArgumentPlace, set[str]] = {}
    consequential = (call for call in calls_of(trail) if CONSEQUENTIAL.matches(call.tool))
    given = ((call.tool, name, value) for call in consequential for name, value in leaves_of(call.args))
    for tool, name, value in islice(given, _MOST_VALUES):
        found.setdefault((tool, name), set()).add(value)
    return {place: frozenset(values) for place, values in found.items()}


def _oddness(mine: dict[ArgumentPlace, frozenset[str]], others: Sequence[dict[ArgumentPlace, frozenset[str]]]) -> float:
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
