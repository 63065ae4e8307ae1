"""Axes about what was done: the tool calls of whole sessions, and how many turns there were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from stream_guard import AxisValues, RecordedTurn, Sides


class Trajectory:
    """The edit distance between the sequences of tool calls, arguments included: 0 is the same, 1 nothing alike."""

    name: ClassVar[str] = "trajectory"
    unit: ClassVar[str] = ""
    statistic: ClassVar[Literal["median", "mean"]] = "median"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "rate"
    better: ClassVar[Literal["lower", "higher", "same"]] = "lower"

    def measure(self, sides: Sides) -> AxisValues:
        """Measure turn by turn, and as the headline over whole sessions.

        The median over turns hides one changed turn of three, and turns that one side lacks; the headline does
        not. A tool that the baseline never called is severe, however long the session around it is.
        """
        per_turn = [
            distance(_tokens([old]), _tokens([new]))
            for before, after in sides.sessions
            for old, new in zip(before.turns, after.turns, strict=False)
        ]
        edits = longest = 0
        for before, after in sides.sessions:
            old, new = _tokens(before.turns), _tokens(after.turns)
            edits += edit_distance(old, new)
            longest += max(len(old), len(new))
        was_called = {call.tool for before, _ in sides.sessions for turn in before.turns for call in turn.calls}
        is_called = {call.tool for _, after in sides.sessions for turn in after.turns for call in turn.calls}
        added, dropped = sorted(is_called - was_called), sorted(was_called - is_called)
        notes = [
            f"{word} {', '.join(map(repr, names))}" for word, names in (("new:", added), ("gone:", dropped)) if names
        ]
        return AxisValues(
            baseline=(0.0,) * len(per_turn),
            candidate=tuple(per_turn),
            headline=edits / longest if longest else 0.0,
            at_least="severe" if added else "none",
            flags=("new_tool",) * bool(added) + ("dropped_tool",) * bool(dropped),
            note="; ".join(notes),
        )


class Turns:
    """How many turns the candidate has: dropped and extra ones count as shares of the longer session."""

    name: ClassVar[str] = "turns"
    unit: ClassVar[str] = "turns"
    statistic: ClassVar[Literal["median", "mean"]] = "mean"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "own"
    better: ClassVar[Literal["lower", "higher", "same"]] = "same"

    def measure(self, sides: Sides) -> AxisValues:
        """Count; a seventh of the turns more or less is how agents vary, a third is another session."""
        counts = [(len(before.turns), len(after.turns)) for before, after in sides.sessions]
        dropped = sum(max(0, old - new) for old, new in counts)
        extra = sum(max(0, new - old) for old, new in counts)
        share = (dropped + extra) / max(1, sum(map(max, counts)))
        empty = sum(old > 0 and new == 0 for old, new in counts)
        severity: Literal["none", "moderate", "severe"]
        severity = "severe" if share >= 0.30 or empty else "moderate" if share >= 0.15 else "none"
        return AxisValues(
            baseline=tuple(float(old) for old, _ in counts),
            candidate=tuple(float(new) for _, new in counts),
            at_least=severity,
            flags=("empty_candidate",) * bool(empty),
            note=f"{dropped} dropped, {extra} extra" if dropped or extra else "",
        )


def _tokens(turns: Sequence[RecordedTurn]) -> list[str]:
    return [call.token for turn in turns for call in turn.calls]


def edit_distance(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the least number of insertions, deletions and substitutions; memory is linear."""
    from rapidfuzz.distance import Levenshtein

    return int(Levenshtein.distance(old, new))


def distance(old: Sequence[str], new: Sequence[str]) -> float:
    """Return the edit distance as a share of the longer sequence; 0 when both are empty."""
    longest = max(len(old), len(new))
    if not longest or old == new:
        return 0.0
    return edit_distance(old, new) / longest
