"""Where two sessions part, and how: in what they do, in how they decide, or only in their words."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from stream_guard import RecordedTurn
from stream_guard_diff.alignment import Step, align
from stream_guard_diff.features import Features, Parting, part

NOISE: Final = 0.12  # turns that differ by no more than this, as measured on Shadow, do not part
SAME_WORDS: Final = 0.80  # likeness from which on wording is left alone
OTHER_WORDS: Final = 0.05  # likeness under which it is not the wording that changed but what is said
TOP: Final = 5


class DivergenceKind(StrEnum):
    """The class of a divergence, worst first."""

    STRUCTURAL = "structural"  # which tools, how many, in which order; turns that only one side has
    DECISION = "decision"  # arguments, stop reason, refusal, another answer
    STYLE = "style"  # other words


RANK: Final = {kind: place for place, kind in enumerate(DivergenceKind)}


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """One place where the sides part; of a turn that one side lacks, the other index is where it is missing."""

    kind: DivergenceKind
    axis: str
    baseline_turn: int
    candidate_turn: int
    confidence: float
    detail: str
    session_id: str = ""


def compare_cost(old: Features, new: Features) -> float:
    """Return what pairing two turns costs."""
    return 0.0 if old.key == new.key else part(old, new).cost


def walk(baseline: Sequence[RecordedTurn], candidate: Sequence[RecordedTurn]) -> tuple[list[Step], list[Divergence]]:
    """Align two sessions once; return the steps, and every divergence in the order of the walk."""
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
    return sorted(found, key=lambda one: (RANK[one.kind], -one.confidence))[:top]


def _gap(step: Step, old: Sequence[Features], new: Sequence[Features]) -> Divergence:
    if step.is_extra:
        detail = f"the candidate has a turn more: {_say(new[step.new])}"
    else:
        detail = f"the candidate lacks a turn: {_say(old[step.old])}"
    return Divergence(
        kind=DivergenceKind.STRUCTURAL,
        axis="trajectory",
        baseline_turn=step.old,
        candidate_turn=step.new,
        confidence=1.0,
        detail=detail,
    )


def classify(step: Step, old: Features, new: Features) -> Divergence | None:
    """Return how the two turns of a step part, or None where they do not part enough to speak of."""
    parting = part(old, new)
    judged = _judge(parting, old, new)
    if judged is None:
        return None
    kind, axis, detail = judged
    return Divergence(
        kind=kind,
        axis=axis,
        baseline_turn=step.old,
        candidate_turn=step.new,
        confidence=min(1.0, max(0.0, (parting.cost - NOISE) / (1 - NOISE))),
        detail=detail,
    )


def _judge(parting: Parting, old: Features, new: Features) -> tuple[DivergenceKind, str, str] | None:
    if parting.structure:
        return DivergenceKind.STRUCTURAL, "trajectory", f"{_tools(old)} became {_tools(new)}"
    if parting.stop:
        said = f"stops with {new.stop or 'no reason'} instead of {old.stop or 'none'}"
        return DivergenceKind.DECISION, "safety", said
    if parting.refusal:
        return DivergenceKind.DECISION, "safety", "now declines" if new.refused else "no longer declines"
    if parting.arguments:
        return DivergenceKind.DECISION, "trajectory", f"other arguments for {_tools(new)}"
    return _judge_words(1.0 - parting.text)


def _judge_words(alike: float) -> tuple[DivergenceKind, str, str] | None:
    if alike >= SAME_WORDS:
        return None
    if alike < OTHER_WORDS:
        return DivergenceKind.DECISION, "semantic", f"says something else ({alike:.0%} of the wording is shared)"
    return DivergenceKind.STYLE, "semantic", f"other words ({alike:.0%} of the wording is shared)"


def _tools(one: Features) -> str:
    if not one.shapes:
        return "no call"
    shown = ", ".join(shape[:80] for shape in one.shapes[:4])
    return shown + (f" and {len(one.shapes) - 4} more" if len(one.shapes) > 4 else "")


def _say(one: Features) -> str:
    return _tools(one) if one.shapes else "text only"
