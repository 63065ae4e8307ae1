"""What was learned: the rules that are proposed, those that are not, and what is odd about the recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stream_guard.learning.candidates import RuleCandidate


@dataclass(frozen=True, slots=True)
class Lesson:
    """A candidate with what was found about it."""

    candidate: RuleCandidate
    broken: frozenset[str]  # judged sessions that break it as it is proposed
    alarms: frozenset[str]  # judged sessions that broke it when it was learned without them
    at_most: float  # the share of unseen fine sessions with an alarm of it; holds for all candidates at once
    refused_for: str = ""  # why it is not proposed; empty: it is


@dataclass(frozen=True, slots=True)
class OddSession:
    """A session that is unlike nearly all others."""

    session_id: str
    reasons: tuple[str, ...]  # ids of rules that it breaks, and what it does or leaves out


@dataclass(frozen=True, slots=True)
class Learned:
    """The outcome."""

    sessions: int
    tasks: int
    judged: int
    lessons: Sequence[Lesson]  # those that are proposed first, the best first
    alarmed: int  # judged sessions with an alarm of a set that was learned and chosen without them
    odd: Sequence[OddSession]
    calls: Mapping[str, int]  # sessions in which each tool was called

    @property
    def proposed(self) -> list[Lesson]:
        """The rules that are proposed, the best first."""
        return [lesson for lesson in self.lessons if not lesson.refused_for]
