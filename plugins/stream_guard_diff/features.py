"""What alignment compares: a turn with its calls and its text as pieces, and the cost of a pair of turns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

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
