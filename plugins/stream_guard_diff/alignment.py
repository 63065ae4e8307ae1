"""Which turn of one session belongs to which of the other: affine gaps, bands for long sessions, linear memory."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import isqrt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from stream_guard_diff.features import CostRows, Features

GAP_OPEN: Final = 0.60
GAP_EXTEND: Final = 0.15
EXACT_CELLS: Final = 10_000  # up to here every cell is compared exactly
MAX_WIDTH: Final = 1024  # of a band: memory is this many bytes for each turn, and no more

# Fixed point: sums in another order must still be equal, or ties would be decided by rounding.
_UNIT: Final = 1 << 32
_OPEN: Final = round(GAP_OPEN * _UNIT)
_EXTEND: Final = round(GAP_EXTEND * _UNIT)
_FAR: Final = 1 << 60

_MATCH, _INSERT, _DELETE = 0, 1, 2
_EXTENDS_INSERT, _EXTENDS_DELETE = 4, 8

Costs = NDArray[np.int64]
CellCosts = Callable[[int, int, int], NDArray[np.float64]]
Compare = Callable[[Features, Features], float]


class AlignedStep(NamedTuple):
    """One step through both sessions: a pair, a turn only the baseline has, or one only the candidate has."""

    old: int
    new: int
    kind: int  # of a gap, the position on the other side is where the turn is missing

    @property
    def is_pair(self) -> bool:
        """Whether both sides have the turn."""
        return self.kind == _MATCH

    @property
    def is_extra(self) -> bool:
        """Whether only the candidate has the turn."""
        return self.kind == _INSERT


def align(old: Sequence[Features], new: Sequence[Features], compare: Compare) -> list[AlignedStep]:
    """Return the steps through both sessions, in order.

    Small sessions are aligned as a whole, with exact costs. In longer ones, turns that are the same and
    occur once on each side hold the rest in place, and what lies between is aligned by itself.
    """
    if len(old) * len(new) <= EXACT_CELLS:
        return list(_exact(old, new, 0, 0, compare))
    steps: list[AlignedStep] = []
    at_old = at_new = 0
    for anchor_old, anchor_new in [*_anchors(old, new), (len(old), len(new))]:
        steps += _between(old[at_old:anchor_old], new[at_new:anchor_new], at_old, at_new, compare)
        if anchor_old < len(old):
            steps.append(AlignedStep(anchor_old, anchor_new, _MATCH))
        at_old, at_new = anchor_old + 1, anchor_new + 1
    return steps


def _anchors(old: Sequence[Features], new: Sequence[Features]) -> list[tuple[int, int]]:
    """Return the turns both begin and end with, and between them the longest run of turns unique on each side."""
    head = 0
    while head < min(len(old), len(new)) and old[head].key == new[head].key:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail].key == new[-1 - tail].key:
        tail += 1
    middle_old, middle_new = range(head, len(old) - tail), range(head, len(new) - tail)
    seen_old = Counter(old[place].key for place in middle_old)
    seen_new = Counter(new[place].key for place in middle_new)
    places = {new[place].key: place for place in middle_new}
    found = [
        (place, places[old[place].key])
        for place in middle_old
        if seen_old[old[place].key] == seen_new[old[place].key] == 1
    ]
    begins = [(place, place) for place in range(head)]
    ends = [(len(old) - tail + place, len(new) - tail + place) for place in range(tail)]
    return begins + _longest_rise(found) + ends


def _longest_rise(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest part of the pairs whose second numbers rise."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [number]
    rise: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        rise.append(pairs[number])
        number = before[number]
    return rise[::-1]


def _between(
    old: Sequence[Features], new: Sequence[Features], at_old: int, at_new: int, compare: Compare
) -> Iterator[AlignedStep]:
    if len(old) * len(new) <= EXACT_CELLS:
        return _exact(old, new, at_old, at_new, compare)
    half_width = abs(len(old) - len(new)) + max(100, isqrt(max(len(old), len(new))))
    if 2 * half_width + 1 > MAX_WIDTH:
        return _by_shape(old, new, at_old, at_new)
    return _walk(len(old), len(new), half_width, CostRows(old, new).costs, at_old, at_new)


def _exact(
    old: Sequence[Features], new: Sequence[Features], at_old: int, at_new: int, compare: Compare
) -> Iterator[AlignedStep]:
    def costs(row: int, start: int, stop: int) -> NDArray[np.float64]:
        return np.array([compare(old[row], new[column]) for column in range(start, stop)])

    return _walk(len(old), len(new), max(len(old), len(new)), costs, at_old, at_new)


def _by_shape(old: Sequence[Features], new: Sequence[Features], at_old: int, at_new: int) -> Iterator[AlignedStep]:
    """Align by tools and stop reasons alone: it needs no band, and sides so unlike in length have no narrow one."""
    operations = Levenshtein.opcodes([turn.shape_key for turn in old], [turn.shape_key for turn in new])
    for operation in operations:
        first, second = operation.src_start, operation.dest_start
        while first < operation.src_end and second < operation.dest_end:
            yield AlignedStep(at_old + first, at_new + second, _MATCH)
            first, second = first + 1, second + 1
        for place in range(first, operation.src_end):
            yield AlignedStep(at_old + place, at_new + second, _DELETE)
        for place in range(second, operation.dest_end):
            yield AlignedStep(at_old + first, at_new + place, _INSERT)


def _walk(
    rows: int, columns: int, half_width: int, costs: CellCosts, at_old: int, at_new: int
) -> Iterator[AlignedStep]:
    """Yield the cheapest way through the cells no further than ``half_width`` from the diagonal."""
    marks = _fill(rows, columns, half_width, costs)
    steps: list[AlignedStep] = []
    row, column = rows, columns
    state = -1
    while row or column:
        start, line = marks[row]
        mark = int(line[column - start])
        if state < 0:
            state = mark & 3
        if state == _MATCH:
            row, column = row - 1, column - 1
            extends_gap = 0
        elif state == _INSERT:
            column -= 1
            extends_gap = mark & _EXTENDS_INSERT
        else:
            row -= 1
            extends_gap = mark & _EXTENDS_DELETE
        steps.append(AlignedStep(at_old + row, at_new + column, state))
        state = state if extends_gap else -1
    return reversed(steps)


def _fill(rows: int, columns: int, half_width: int, costs: CellCosts) -> list[tuple[int, NDArray[np.uint8]]]:
    """Return, for each row, where its band starts and how each cell is best reached (one byte a cell)."""
    best = np.full(columns + 1, _FAR, dtype=np.int64)
    deleted = np.full(columns + 1, _FAR, dtype=np.int64)
    marks = []
    for row in range(rows + 1):
        start, stop = max(0, row - half_width), min(columns, row + half_width) + 1
        deleted_now, matched, extends_delete = _arrive(row, start, stop, best, deleted, costs)
        inserted, extends_insert = _insert(np.minimum(matched, deleted_now), start, stop)
        total = np.minimum(np.minimum(matched, inserted), deleted_now)
        # Of equal costs a pair is taken first, then an extra turn, then a dropped one.
        mark = np.where(matched == total, _MATCH, np.where(inserted == total, _INSERT, _DELETE)).astype(np.uint8)
        mark |= extends_insert.astype(np.uint8) * np.uint8(_EXTENDS_INSERT)
        mark |= extends_delete.astype(np.uint8) * np.uint8(_EXTENDS_DELETE)
        marks.append((start, mark))
        best[start:stop] = total
        deleted[start:stop] = deleted_now
    return marks


def _arrive(
    row: int, start: int, stop: int, best: Costs, deleted: Costs, costs: CellCosts
) -> tuple[Costs, Costs, NDArray[np.bool_]]:
    """Return the cells of a row as reached from the row above, by a deletion and by a match."""
    matched = np.full(stop - start, _FAR, dtype=np.int64)
    if row == 0:
        matched[0] = 0
        return np.full(stop - start, _FAR, dtype=np.int64), matched, np.zeros(stop - start, dtype=np.bool_)
    opened, extended = best[start:stop] + _OPEN, deleted[start:stop] + _EXTEND
    first = max(1, start)
    if stop > first:
        cell = np.rint(costs(row - 1, first - 1, stop - 1) * _UNIT).astype(np.int64)
        matched[first - start :] = np.minimum(best[first - 1 : stop - 1] + cell, _FAR)
    return np.minimum(np.minimum(opened, extended), _FAR), matched, extended < opened


def _insert(reached: Costs, start: int, stop: int) -> tuple[Costs, NDArray[np.bool_]]:
    """Return the cells as reached by insertions along the row, all at once: a running minimum instead of a loop."""
    offsets = np.arange(start, stop, dtype=np.int64) * _EXTEND
    inserted = np.full(stop - start, _FAR, dtype=np.int64)
    if len(inserted) > 1:
        least = np.minimum.accumulate(reached - offsets)
        inserted[1:] = np.minimum(least[:-1] + _OPEN - _EXTEND + offsets[1:], _FAR)
    goes_on = np.zeros(stop - start, dtype=np.bool_)
    if len(inserted) > 2:
        goes_on[2:] = inserted[1:-1] + _EXTEND < reached[1:-1] + _OPEN
    return inserted, goes_on
