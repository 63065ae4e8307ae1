"""Turns side by side: what a pair of them costs, which belong together, and where two sessions diverge."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import isqrt
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from stream_guard import RecordedTurn

# The weights as measured on Shadow 3.2.5: what was done counts most.
STRUCTURE: Final = 0.40
TEXT: Final = 0.25
ARGUMENTS: Final = 0.20
STOP: Final = 0.15

GRAM: Final = 4
LANES: Final = 64  # estimates are within about a sixteenth: enough to find partners, whose likeness is then exact

Grams = NDArray[np.uint64]

_SEED: Final = np.random.default_rng(20260131)  # fixed: the same recordings align the same way every time
_FACTORS: Final = _SEED.integers(1, 2**63, LANES, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_NONE: Final = np.array([], dtype=np.uint64)

_write: Final = json.JSONEncoder(sort_keys=True).encode


class Features:
    """One turn, with everything that comparing it needs; made once: a cell's cost does not grow with the text."""

    __slots__ = ("grams", "inputs", "key", "refused", "shape_key", "shapes", "stop", "turn")

    def __init__(self, turn: RecordedTurn) -> None:
        self.turn = turn
        self.shapes = tuple(call.shape for call in turn.calls)
        # As written: 1 and 1.0 are one value to the trajectory, and yet a tool may tell them apart.
        self.inputs = tuple((call.tool, _write(call.args)) for call in turn.calls)
        self.grams: Grams = grams_of(turn.text)
        self.stop = turn.stop_reason
        self.refused = turn.refused
        self.shape_key = hash((self.shapes, self.stop))
        self.key = hash((self.inputs, self.stop, " ".join(turn.text.split())))


@dataclass(frozen=True, slots=True)
class TurnDifference:
    """How two turns differ, part by part; 0 is the same."""

    structure: float
    text: float
    stop: bool
    arguments: bool
    refusal: bool = False

    @property
    def cost(self) -> float:
        """The weighted sum."""
        return STRUCTURE * self.structure + TEXT * self.text + STOP * self.stop + ARGUMENTS * self.arguments


def compare_turns(old: Features, new: Features) -> TurnDifference:
    """Compare two turns: which tools, how many and in which order, then arguments, stop reason, refusal and words."""
    return TurnDifference(
        structure=_structure(old.shapes, new.shapes),
        text=1.0 - likeness(old.grams, new.grams),
        stop=old.stop != new.stop,
        arguments=set(old.shapes) == set(new.shapes) and old.inputs != new.inputs and _other_inputs(old, new),
        refusal=old.refused != new.refused,
    )


def _structure(old: tuple[str, ...], new: tuple[str, ...]) -> float:
    if old == new:
        return 0.0
    first, second = set(old), set(new)
    unlike = 1.0 - len(first & second) / len(first | second)
    counts = abs(len(old) - len(new)) / max(len(old), len(new))
    # The same tools in another order are another plan.
    return max(unlike, counts) or Levenshtein.distance(old, new) / len(old)


def _other_inputs(old: Features, new: Features) -> bool:
    """Whether some tool's calls, taken in order, are given something else."""

    def by_tool(turn: Features) -> dict[str, list[str]]:
        grouped: dict[str, list[str]] = {}
        for tool, written in turn.inputs:
            grouped.setdefault(tool, []).append(written)
        return grouped

    after = by_tool(new)
    return any(
        first != second
        for tool, inputs in by_tool(old).items()
        for first, second in zip(inputs, after.get(tool, ()), strict=False)
    )


class CostRows:
    """Estimated costs of one baseline turn against a run of candidate turns, a row at a time."""

    def __init__(self, old: Sequence[Features], new: Sequence[Features]) -> None:
        self._old, self._new = old, new

    @cached_property
    def _sketches(self) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
        def stack(side: Sequence[Features]) -> NDArray[np.uint16]:
            return np.array([sketch(turn.grams) for turn in side], dtype=np.uint16).reshape(len(side), LANES)

        return stack(self._old), stack(self._new)

    @cached_property
    def _numbers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Shapes, arguments and stop reasons as numbers: equal numbers are equal things."""
        known: dict[object, int] = {}

        def number(side: Sequence[Features]) -> NDArray[np.int64]:
            rows = [
                [known.setdefault(value, len(known)) for value in (("s", turn.shapes), ("a", turn.inputs), turn.stop)]
                for turn in side
            ]
            return np.array(rows, dtype=np.int64).reshape(len(side), 3)

        return number(self._old), number(self._new)

    def costs(self, row: int, start: int, stop: int) -> NDArray[np.float64]:
        """Return what pairing the baseline's turn ``row`` with the candidate's ``start`` to ``stop`` would cost."""
        old_numbers, new_numbers = self._numbers
        old_sketches, new_sketches = self._sketches
        differs = new_numbers[start:stop] != old_numbers[row]
        alike = (new_sketches[start:stop] == old_sketches[row]).mean(axis=1)
        structure, arguments = differs[:, 0], differs[:, 1] & ~differs[:, 0]
        costs: NDArray[np.float64] = (
            STRUCTURE * structure + TEXT * (1.0 - alike) + STOP * differs[:, 2] + ARGUMENTS * arguments
        )
        return costs


def grams_of(text: str) -> Grams:
    """Return the distinct pieces of a text, sorted; white space counts as one space, a short text as one piece."""
    collapsed = " ".join(text.split())
    if not collapsed:
        return _NONE
    letters = np.frombuffer(collapsed.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    if len(letters) < GRAM:
        letters = np.concatenate([letters, np.full(GRAM - len(letters), 0x110000, dtype=np.uint64)])
    count = len(letters) - GRAM + 1
    packed = np.zeros(count, dtype=np.uint64)
    for offset in range(GRAM):
        packed = (packed ^ letters[offset : offset + count]) * _MIX
        packed ^= packed >> np.uint64(29)
    # By hand: np.unique asks more questions than a short text has pieces.
    packed.sort()
    distinct = np.empty(count, dtype=np.bool_)
    distinct[0] = True
    np.not_equal(packed[1:], packed[:-1], out=distinct[1:])
    return packed[distinct]


def likeness(old: Grams, new: Grams) -> float:
    """Return the share of pieces that both have (Jaccard); two empty texts are alike."""
    if len(old) == len(new) and np.array_equal(old, new):
        return 1.0
    if not len(old) or not len(new):
        return 0.0
    shared = len(np.intersect1d(old, new, assume_unique=True))
    return shared / (len(old) + len(new) - shared)


def sketch(grams: Grams) -> NDArray[np.uint16]:
    """Return a sketch (MinHash): of two sketches, as many lanes agree as the likeness of the texts says."""
    lanes = np.zeros(LANES, dtype=np.uint16)
    if not len(grams):
        return lanes
    if len(grams) < 4096:
        least = (grams[None, :] * _FACTORS[:, None]).min(axis=1)
    else:  # lane by lane: a megabyte of text must not become sixty-four
        least = np.array([(grams * factor).min() for factor in _FACTORS])
    # The low bits of a least value are random; the high ones are nearly always zero. Zero means "no text".
    lanes[:] = ((least * _MIX) >> np.uint64(48)).astype(np.uint16) | np.uint16(1)
    return lanes


# Which turn of one session belongs to which of the other: affine gaps, bands for long sessions, linear memory.

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


# Where two sessions diverge, and how: in what they do, in how they decide, or only in their words.

NOISE: Final = 0.12  # turns that differ by no more than this, as measured on Shadow, do not diverge
SAME_WORDS: Final = 0.80  # likeness from which on wording counts as the same
OTHER_WORDS: Final = 0.05  # likeness under which the answer itself is another one
TOP: Final = 5


class DivergenceKind(StrEnum):
    """The class of a divergence, worst first."""

    STRUCTURAL = "structural"  # which tools, how many, in which order; turns that only one side has
    DECISION = "decision"  # arguments, stop reason, refusal, another answer
    STYLE = "style"  # other words


RANK: Final = {kind: place for place, kind in enumerate(DivergenceKind)}


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """One place where the sides diverge; of a turn that one side lacks, the other index is where it is missing."""

    kind: DivergenceKind
    axis: str
    baseline_turn: int
    candidate_turn: int
    confidence: float
    detail: str
    session_id: str = ""


def compare_cost(old: Features, new: Features) -> float:
    """Return what pairing two turns costs."""
    return 0.0 if old.key == new.key else compare_turns(old, new).cost


def align_sessions(
    baseline: Sequence[RecordedTurn], candidate: Sequence[RecordedTurn]
) -> tuple[list[AlignedStep], list[Divergence]]:
    """Align two sessions once; return the steps, and every divergence in order."""
    old, new = [Features(turn) for turn in baseline], [Features(turn) for turn in candidate]
    steps = align(old, new, compare_cost)
    found: list[Divergence] = []
    for step in steps:
        if not step.is_pair:
            found.append(_gap(step, old, new))
        elif old[step.old].key != new[step.new].key:
            divergence = classify(step, old[step.old], new[step.new])
            if divergence is not None:
                found.append(divergence)
    return steps, found


def ranked(found: Sequence[Divergence]) -> list[Divergence]:
    """Return the divergences that matter most: structure before decisions before style, then the surest."""
    return sorted(found, key=lambda divergence: (RANK[divergence.kind], -divergence.confidence))[:TOP]


def _gap(step: AlignedStep, old: Sequence[Features], new: Sequence[Features]) -> Divergence:
    if step.is_extra:
        detail = f"the candidate has a turn more: {_describe(new[step.new])}"
    else:
        detail = f"the candidate lacks a turn: {_describe(old[step.old])}"
    return Divergence(
        kind=DivergenceKind.STRUCTURAL,
        axis="trajectory",
        baseline_turn=step.old,
        candidate_turn=step.new,
        confidence=1.0,
        detail=detail,
    )


def classify(step: AlignedStep, old: Features, new: Features) -> Divergence | None:
    """Return how the two turns of a step diverge, or None where the difference is noise."""
    difference = compare_turns(old, new)
    judged = _judge(difference, old, new)
    if judged is None:
        return None
    kind, axis, detail = judged
    return Divergence(
        kind=kind,
        axis=axis,
        baseline_turn=step.old,
        candidate_turn=step.new,
        confidence=min(1.0, max(0.0, (difference.cost - NOISE) / (1 - NOISE))),
        detail=detail,
    )


def _judge(difference: TurnDifference, old: Features, new: Features) -> tuple[DivergenceKind, str, str] | None:
    if difference.structure:
        return DivergenceKind.STRUCTURAL, "trajectory", f"{_tools(old)} became {_tools(new)}"
    if difference.stop:
        detail = f"stops with {new.stop or 'no reason'} instead of {old.stop or 'none'}"
        return DivergenceKind.DECISION, "safety", detail
    if difference.refusal:
        return DivergenceKind.DECISION, "safety", "now declines" if new.refused else "no longer declines"
    if difference.arguments:
        return DivergenceKind.DECISION, "trajectory", f"other arguments for {_tools(new)}"
    return _judge_words(1.0 - difference.text)


def _judge_words(alike: float) -> tuple[DivergenceKind, str, str] | None:
    if alike >= SAME_WORDS:
        return None
    if alike < OTHER_WORDS:
        return DivergenceKind.DECISION, "semantic", f"says something else ({alike:.0%} of the wording is shared)"
    return DivergenceKind.STYLE, "semantic", f"other words ({alike:.0%} of the wording is shared)"


def _tools(turn: Features) -> str:
    if not turn.shapes:
        return "no call"
    shown = ", ".join(shape[:80] for shape in turn.shapes[:4])
    return shown + (f" and {len(turn.shapes) - 4} more" if len(turn.shapes) > 4 else "")


def _describe(turn: Features) -> str:
    return _tools(turn) if turn.shapes else "text only"
