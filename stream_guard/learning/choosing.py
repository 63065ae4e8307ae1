"""Choose among candidates: no accidents, nothing twice, and few alarms on sessions that were not learned from."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import exp, lgamma, log, log2
from typing import Final

from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding
from stream_guard.judge.spec import Policy
from stream_guard.learning.candidates import RuleCandidate
from stream_guard.learning.facts import is_grave
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry
from stream_guard.settings import SessionLimits

FALSE_SHARE: Final = 0.1  # of the proposed rules that may be accidents
_MOST_SURPRISE: Final = 12.0  # kept by accident once in 160,000: what is surer finds no more
_LEAST_CERTAINTY: Final = 6.0  # kept by accident once in 20 for what acts, once in 400 for what reads
_TASKS_OF_BOUND: Final = 50
_UNSEEN: Final = 0.25  # alarms to expect of a rule beside those that were seen, among as many sessions


def certainty(candidate: RuleCandidate) -> float:
    """Return how sure a candidate is: how hard it is to keep by accident; what acts needs less of that.

    Of a bound: how improbable it is that the next task passes it.
    """
    sure = log(candidate.tasks + 1) if candidate.surprise is None else min(candidate.surprise, _MOST_SURPRISE)
    grave = sum(map(is_grave, candidate.tools)) / max(1, len(candidate.tools))
    return sure * (1 + grave)


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


def choose(
    candidates: Iterable[RuleCandidate], alarms: Mapping[str, Set[str]], most_alarms: float
) -> list[RuleCandidate]:
    """Return the candidates that are worth most for their alarms, the best first.

    ``alarms`` are the sessions in which each had one, and ``most_alarms`` is in how many all may have one together. A
    candidate that another one covers is left out when that one is chosen.
    """
    chosen: dict[str, RuleCandidate] = {}
    alarmed: set[str] = set()
    covered: set[str] = set()
    for candidate in sorted(candidates, key=lambda one: _order(one, alarms)):
        own = alarms.get(candidate.id, frozenset())
        others = chosen.keys() - candidate.covers
        expected = len(alarmed | own) + _UNSEEN * (len(others) + 1)
        if candidate.id not in covered and is_sure(candidate, own) and expected <= most_alarms:
            chosen = {rule: chosen[rule] for rule in others} | {candidate.id: candidate}
            alarmed |= own
            covered.update(candidate.covers)
    return ranked(chosen.values())


def _order(candidate: RuleCandidate, alarms: Mapping[str, Set[str]]) -> tuple[float, int, str]:
    expected = len(alarms.get(candidate.id, ())) + _UNSEEN
    return (-worth(candidate) / expected, -candidate.support, candidate.id)


def ranked(candidates: Iterable[RuleCandidate]) -> list[RuleCandidate]:
    """Return candidates, the best first."""
    return sorted(candidates, key=lambda one: (-worth(one), -one.support, one.id))


# Shares of few sessions: how large the true one may be, and which of many candidates are no accident.


_STEPS: Final = 40


def upper_share(hits: int, of: int, error: float) -> float:
    """Return the share that is hardly passed: with probability ``error``, at most (Clopper and Pearson)."""
    if of == 0 or hits >= of:
        return 1.0
    low, high = hits / of, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _at_most(hits, of, middle) > error:
            low = middle
        else:
            high = middle
    return high


def _at_most(hits: int, of: int, share: float) -> float:
    """Return the probability of no more than so many hits."""
    total = 0.0
    for count in range(hits + 1):
        ways = lgamma(of + 1) - lgamma(count + 1) - lgamma(of - count + 1)
        total += exp(ways + count * log(share) + (of - count) * log(1 - share)) if 0 < share < 1 else 0.0
    return total


def no_accidents(surprises: Sequence[float], tests: int, false_share: float) -> float:
    """Return the surprise from which on at most this share of the candidates is accident (Benjamini and Hochberg)."""
    for rank, found in enumerate(sorted(surprises)):
        below = len(surprises) - rank  # candidates at least as surprising
        if found >= log(tests / (false_share * below)):
            return found
    return float("inf")


# Judge sessions by candidates as the product would: the rules run in the engine.


@dataclass(slots=True)
class Fired:
    """In which sessions each rule fired."""

    by_rule: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, findings: Iterable[Finding]) -> None:
        """Count findings."""
        for finding in findings:
            self.by_rule[finding.rule_id].add(finding.session_id)


def as_policy(candidates: Iterable[RuleCandidate], registry: Registry) -> Policy:
    """Return the candidates as a policy."""
    rules = [candidate.as_rule() for candidate in candidates]
    return load_policy(json.dumps({"name": "learned", "version": 2, "rules": rules}), registry, file="learned")


def judge(
    events: Iterable[Event], policies: Sequence[Policy], policy_of: Mapping[str, Sequence[int]], limits: SessionLimits
) -> list[Fired]:
    """Judge each session by the policies whose places are given for it, reading the events once."""
    judges: list[Judge] = [Judge(policy, limits) for policy in policies]
    found: list[list[Finding]] = [[] for _ in policies]
    for event in events:
        for place in policy_of.get(event.session_id, ()):
            found[place] += judges[place].feed(event).findings
    fired = [Fired() for _ in policies]
    for place, judge in enumerate(judges):
        found[place] += judge.end()
        fired[place].add(found[place])
    return fired
