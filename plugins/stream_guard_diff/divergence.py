"""Where two sessions diverge, and how: in what they do, in how they decide, or only in their words."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from stream_guard import RecordedTurn
from stream_guard_diff.alignment import AlignedStep, align
from stream_guard_diff.features import Features, TurnDifference, compare_turns

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


def ranked(found: Sequence[Divergence], top: int = TOP) -> list[Divergence]:
    """Return the divergences that matter most: structure before decisions before style, then the surest."""
    return sorted(found, key=lambda divergence: (RANK[divergence.kind], -divergence.confidence))[:top]


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
