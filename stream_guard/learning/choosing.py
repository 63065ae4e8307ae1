"""Choose among candidates: no accidents, nothing twice, and few alarms on sessions that were not learned from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from math import log, log2
from typing import Final

from stream_guard.learning.candidates import RuleCandidate
from stream_guard.learning.chances import no_accidents
from stream_guard.learning.classes import is_grave

FALSE_SHARE: Final = 0.1  # of the proposed rules that may be accidents
_GRAVE_BONUS: Final = 2.0  # a rule about what cannot be undone comes before one about reading
_MOST_SURPRISE: Final = 30.0
_LEAST_CERTAINTY: Final = 12.0  # kept by accident once in 400 for what acts, once in 160,000 for what reads
_TASKS_OF_BOUND: Final = 20


def certainty(candidate: RuleCandidate) -> float:
    """Return how sure a candidate is: how hard it is to keep by accident; what acts needs less of that.

    Of a bound: how improbable it is that the next task passes it.
    """
    sure = log(candidate.tasks + 1) if candidate.surprise is None else min(candidate.surprise, _MOST_SURPRISE)
    return sure * (_GRAVE_BONUS if any(map(is_grave, candidate.tools)) else 1.0)


def worth(candidate: RuleCandidate) -> float:
    """Return how good a candidate is: a sure one that looks at many places finds more."""
    return certainty(candidate) * log2(1 + candidate.places)


def accidents(candidates: Collection[RuleCandidate], tests: int) -> set[str]:
    """Return the candidates that may be kept by accident, with all the others in mind that were looked at."""
    surprises = [candidate.surprise for candidate in candidates if candidate.surprise is not None]
    least = no_accidents(surprises, max(tests, len(surprises)), FALSE_SHARE)
    return {one.id for one in candidates if one.surprise is not None and one.surprise < least}


def is_sure(candidate: RuleCandidate, alarms: Set[str]) -> bool:
    """Whether a candidate rests on enough: one about reading on more than one about acts, and a bound on no alarm."""
    if candidate.surprise is None:
        return candidate.tasks >= _TASKS_OF_BOUND and not alarms
    return certainty(candidate) >= _LEAST_CERTAINTY


class Choice:
    """Candidates to choose among, the best first. What does not change from one choice to the next is worked out once.

    ``worths`` are what counts for the least worth, where that is not the candidates' own.
    """

    def __init__(
        self,
        candidates: Iterable[RuleCandidate],
        alarms: Mapping[str, Set[str]],
        worths: Mapping[str, float] | None = None,
    ) -> None:
        sure = [one for one in ranked(candidates) if is_sure(one, alarms.get(one.id, frozenset()))]
        self._ranked: list[tuple[RuleCandidate, float, Set[str]]] = [
            (one, worth(one) if worths is None else worths[one.id], alarms.get(one.id, frozenset())) for one in sure
        ]

    def within(self, most_alarmed: int, least: float = 0.0) -> list[RuleCandidate]:
        """Return the best candidates of some worth whose alarms together stay within a number of sessions.

        A candidate that another one covers is left out when that one is chosen.
        """
        chosen: list[RuleCandidate] = []
        alarmed: set[str] = set()
        for candidate, value, own in self._ranked:
            if value < least:
                continue
            if own <= alarmed:
                chosen.append(candidate)
            elif len(together := alarmed | own) <= most_alarmed:
                chosen.append(candidate)
                alarmed = together
        covered = {other for candidate in chosen for other in candidate.covers}
        return [candidate for candidate in chosen if candidate.id not in covered]


def ranked(candidates: Iterable[RuleCandidate]) -> Sequence[RuleCandidate]:
    """Return candidates, the best first."""
    return sorted(candidates, key=lambda one: (-worth(one), -one.support, one.id))
