"""Learn rules from recordings: mine candidates, try each on sessions it was not mined from, and choose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import inf
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

from stream_guard.learning.candidates import RuleCandidate, Shares
from stream_guard.learning.chances import upper_share
from stream_guard.learning.choosing import Choice, accidents, is_sure, ranked, worth
from stream_guard.learning.collecting import collect
from stream_guard.learning.facts import Facts
from stream_guard.learning.judging import Fired, as_policy, judge
from stream_guard.learning.learned import Learned, Lesson
from stream_guard.learning.mining import count_tests, mine
from stream_guard.learning.oddness import find_odd
from stream_guard.learning.tasks import FOLDS, find_tasks, fold_of
from stream_guard.model import Event
from stream_guard.registry import Registry
from stream_guard.settings import SessionLimits

Read: TypeAlias = Callable[[], Iterable[Event]]
"""Reads the recordings from the beginning; it is called twice."""

MOST_ALARMS: Final = 0.05
"""The share of unseen fine sessions that may have an alarm of what is proposed."""

_UNSEEN: Final = 0.75  # of an alarm that is expected beside those that were seen: between Jeffreys and Laplace
_SHARES: Final = (0.0, 0.25, 0.5, 1.0)  # of the sessions that may have an alarm, those that are tried
_MOST_JUDGED: Final = 1000  # sessions that candidates are tried on; a share needs no more
_STABLE: Final = FOLDS - 1  # of the folds, those without which a rule is found too
_ERROR: Final = 0.05


@dataclass(frozen=True, slots=True)
class _Tried:
    """Candidates by fold, and in which sessions they fired."""

    whole: Mapping[str, RuleCandidate]
    by_fold: Sequence[Mapping[str, RuleCandidate]]
    broken: Fired
    alarms: Sequence[Fired]  # of each fold's candidates, in the sessions of the fold
    judged: frozenset[str]
    folds: Mapping[str, int]

    def alarms_without(self, fold: int | None) -> defaultdict[str, set[str]]:
        """Return the alarms of each rule in all folds but one."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for number, fired in enumerate(self.alarms):
            if number != fold:
                for rule, sessions in fired.by_rule.items():
                    found[rule] |= sessions
        return found

    def unstable(self) -> set[str]:
        """Return the rules that are not found without some sessions."""
        return {rule for rule in self.whole if sum(rule in found for found in self.by_fold) < _STABLE}


def learn(read: Read, registry: Registry, limits: SessionLimits, *, most_alarms: float = MOST_ALARMS) -> Learned:
    """Return what the recorded sessions have in common."""
    facts = collect(read())
    find_tasks(facts.sessions)
    tried = _try(facts, read, registry, limits)
    unfit = dict.fromkeys(tried.unstable(), "not found without some of the sessions")
    unfit |= dict.fromkeys(accidents(tried.whole.values(), count_tests(facts)), "may be an accident")
    alarms, broken = tried.alarms_without(None), tried.broken.by_rule
    strictness = _strictness(tried, unfit, alarms, most_alarms)
    worths = {one.id: worth(one) for one in tried.whole.values()}
    unfit = {rule: "worth too few alarms" for rule, value in worths.items() if value < strictness.least} | unfit
    return Learned(
        sessions=len(facts.sessions),
        tasks=len({session.task for session in facts.sessions}),
        judged=len(tried.judged),
        lessons=_lessons(tried, alarms, unfit, strictness.alarmed),
        alarmed=_LeftOut(tried, unfit, worths).alarmed(strictness.alarmed, strictness.least),
        odd=find_odd(facts, tried.judged, {rule: alarms[rule] | broken[rule] for rule in tried.whole}),
        calls=Shares(facts).sessions,
    )


class _Strictness(NamedTuple):
    """How many sessions may have an alarm, and how much a rule must be worth."""

    alarmed: int
    least: float


def _strictness(
    tried: _Tried, unfit: Mapping[str, str], alarms: Mapping[str, Set[str]], most_alarms: float
) -> _Strictness:
    """Return the strictness of the rules that are worth most together, of those with few enough alarms expected."""
    fit = [one for one in tried.whole.values() if one.id not in unfit]
    worths = {one.id: worth(one) for one in tried.whole.values()}
    choice, left_out = Choice(fit, alarms), _LeftOut(tried, unfit, worths)
    budget = most_alarms * len(tried.judged)
    best, most_worth = _Strictness(0, inf), 0.0
    for alarmed in sorted({int(budget * share) for share in _SHARES}):
        for least in sorted({worths[one.id] for one in fit}):
            together = sum(worths[one.id] for one in choice.within(alarmed, least))
            if together > most_worth and left_out.alarmed(alarmed, least) + _UNSEEN <= budget + most_alarms:
                best, most_worth = _Strictness(alarmed, least), together
    return best


def _lessons(
    tried: _Tried, alarms: defaultdict[str, set[str]], unfit: Mapping[str, str], most_alarmed: int
) -> list[Lesson]:
    """Return the candidates that are proposed, and then the others, each with the reason."""
    chosen = Choice((one for one in tried.whole.values() if one.id not in unfit), alarms).within(most_alarmed)
    proposed = {candidate.id for candidate in chosen}
    reasons = {one.id: "too many alarms on fine sessions" for one in tried.whole.values() if one.id not in proposed}
    reasons |= {one.id: "rests on too little" for one in tried.whole.values() if not is_sure(one, alarms[one.id])}
    reasons |= {other: "says no more than another" for one in chosen for other in one.covers}
    reasons |= unfit
    lessons: list[Lesson] = []
    for candidate in (*chosen, *ranked(one for one in tried.whole.values() if one.id not in proposed)):
        found = frozenset(alarms.get(candidate.id, ()))
        lessons.append(
            Lesson(
                candidate,
                broken=frozenset(tried.broken.by_rule.get(candidate.id, ())),
                alarms=found,
                at_most=upper_share(len(found), len(tried.judged), _ERROR / len(tried.whole)),
                refused_for=reasons.get(candidate.id, ""),
            )
        )
    return lessons


def _try(facts: Facts, read: Read, registry: Registry, limits: SessionLimits) -> _Tried:
    folds = fold_of(facts.sessions)
    whole = mine(facts)
    by_fold: list[dict[str, RuleCandidate]] = []
    for fold in range(FOLDS):
        rest = [session for session in facts.sessions if folds[session.session_id] != fold]
        by_fold.append({rule: found for rule, found in mine(replace(facts, sessions=rest)).items() if rule in whole})
    judged = _sample(folds)
    policies = [as_policy(found.values(), registry) for found in (*by_fold, whole)]
    fired = judge(read(), policies, {name: (folds[name], FOLDS) for name in judged}, limits)
    broken, for_each = fired[FOLDS].by_rule, len(folds) / max(1, len(judged))

    def settled(found: Mapping[str, RuleCandidate], fold: int) -> dict[str, RuleCandidate]:
        """Return the candidates after the trial on what they were mined from."""
        return {
            rule: one.after_trial(sum(folds[name] != fold for name in broken.get(rule, ())) * for_each)
            for rule, one in found.items()
        }

    settled_folds = [settled(found, fold) for fold, found in enumerate(by_fold)]
    return _Tried(settled(whole, FOLDS), settled_folds, fired[FOLDS], fired[:FOLDS], judged, folds)


def _sample(sessions: Iterable[str]) -> frozenset[str]:
    """Return the sessions that are judged: all, or of very many the same ones each time."""
    ordered = sorted(sessions, key=lambda name: crc32(name.encode("utf-8", "replace")))
    return frozenset(ordered[:_MOST_JUDGED])


class _LeftOut:
    """Rules that were mined and chosen without a fold, tried on it."""

    def __init__(self, tried: _Tried, unfit: Mapping[str, str], worths: Mapping[str, float]) -> None:
        self._choices = [
            Choice((one for rule, one in found.items() if rule not in unfit), tried.alarms_without(fold), worths)
            for fold, found in enumerate(tried.by_fold)
        ]
        self._alarms = tried.alarms

    def alarmed(self, most_alarmed: int, least: float) -> int:
        """Return how many sessions have an alarm of rules that were mined and chosen without their fold."""
        alarmed = 0
        for choice, fired in zip(self._choices, self._alarms, strict=True):
            chosen = choice.within(most_alarmed, least)
            alarmed += len(set().union(*(fired.by_rule.get(candidate.id, ()) for candidate in chosen)))
        return alarmed
