"""Learn rules from recordings: mine candidates, try each on sessions it was not mined from, and choose."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log
from typing import Final, TypeAlias
from zlib import crc32

from stream_guard.judge.model import Event
from stream_guard.learning.candidates import Learned, Lesson, OddSession, RuleCandidate, Shares, surprise
from stream_guard.learning.choosing import Fired, accidents, as_policy, choose, is_sure, judge, ranked, upper_share
from stream_guard.learning.collecting import collect
from stream_guard.learning.facts import Facts, SessionFacts
from stream_guard.learning.mining import count_tests, mine
from stream_guard.registry import Registry
from stream_guard.settings import SessionLimits

# Which sessions are about the same, and how they are parted for a test: what one task says twice counts once.


FOLDS: Final = 5
_SHARED: Final = 0.5  # of the values of the session that has fewer


def find_tasks(sessions: Sequence[SessionFacts]) -> None:
    """Give the sessions that are about the same things the same number. None of the groups is larger than a fold.

    Those are about the same that share most of their rare values, or some and the user's first words. A session is
    compared with the one before it that has the same value, so the time grows with the number of values.
    """
    largest = max(1, len(sessions) // FOLDS)
    groups = _Groups(len(sessions), largest)
    openings = [() if session.opening is None else (session.opening,) for session in sessions]
    for values, is_same in ((openings, _may_be_same), ([session.values for session in sessions], _is_same)):
        # What more than a fold begins with or has is a form, and not what one task is about.
        rare = [places for places in _holders(values) if len(places) <= largest]
        for places in sorted(rare, key=lambda places: (len(places), places)):
            for one, other in pairwise(places):
                if is_same(sessions[one].values, sessions[other].values):
                    groups.join(one, other)
    for place, session in enumerate(sessions):
        session.task = groups.find(place)
    counts = Counter(session.task for session in sessions)
    for session in sessions:
        session.weight = 1 / counts[session.task]


def _holders(values: Iterable[Iterable[int]]) -> list[list[int]]:
    """Return for each value that several sessions have their places."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for place, own in enumerate(values):
        for value in own:
            found[value].append(place)
    return [places for places in found.values() if len(places) > 1]


def _may_be_same(one: set[int], other: set[int]) -> bool:
    return not one or not other or bool(one & other)


def _is_same(one: set[int], other: set[int]) -> bool:
    return len(one & other) >= _SHARED * min(len(one), len(other))


class _Groups:
    """Sessions that are joined step by step, as long as no group is too large."""

    def __init__(self, count: int, largest: int) -> None:
        self._root = list(range(count))
        self._size = [1] * count
        self._largest = largest

    def find(self, place: int) -> int:
        """Return the first session of a session's group."""
        root = self._root
        while root[place] != place:
            root[place] = root[root[place]]
            place = root[place]
        return place

    def join(self, one: int, other: int) -> None:
        """Make two groups one, unless that is too large."""
        first, second = sorted((self.find(one), self.find(other)))
        if first != second and self._size[first] + self._size[second] <= self._largest:
            self._root[second] = first
            self._size[first] += self._size[second]


def fold_of(sessions: Sequence[SessionFacts]) -> dict[str, int]:
    """Return the fold of each session: whole tasks, and folds of about the same size."""
    by_task: defaultdict[int, list[str]] = defaultdict(list)
    for session in sessions:
        by_task[session.task].append(session.session_id)
    sizes = [0] * FOLDS
    folds: dict[str, int] = {}
    for members in sorted(by_task.values(), key=lambda found: (-len(found), found[0])):
        smallest = sizes.index(min(sizes))
        sizes[smallest] += len(members)
        folds |= dict.fromkeys(members, smallest)
    return folds


Read: TypeAlias = Callable[[], Iterable[Event]]
"""Reads the recordings from the beginning; it is called twice."""

MOST_ALARMS: Final = 0.05
"""The share of unseen fine sessions that may have an alarm of what is proposed."""

_MOST_JUDGED: Final = 1000  # sessions that candidates are tried on; a share needs no more
_STABLE: Final = FOLDS - 1  # of the folds, those without which a rule is found too
_ERROR: Final = 0.05
_SHARES: Final = (1.0, 0.75, 0.5, 0.25, 0.1)  # of the alarms that may be, those that rules are chosen with


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
    alarms = tried.alarms_without(None)
    broken = {rule: alarms[rule] | tried.broken.by_rule[rule] for rule in tried.whole}
    budget, alarmed = _budget(tried, unfit, most_alarms)
    return Learned(
        sessions=len(facts.sessions),
        tasks=len({session.task for session in facts.sessions}),
        judged=len(tried.judged),
        lessons=_lessons(tried, alarms, unfit, choose(_fit(tried.whole, unfit), broken, budget)),
        alarmed=alarmed,
        odd=find_odd(facts, tried.judged, broken),
        calls=Shares(facts).sessions,
    )


def _fit(found: Mapping[str, RuleCandidate], unfit: Mapping[str, str]) -> list[RuleCandidate]:
    return [candidate for rule, candidate in found.items() if rule not in unfit]


def _budget(tried: _Tried, unfit: Mapping[str, str], most_alarms: float) -> tuple[float, int]:
    """Return the alarms that rules may have to be chosen, and how many sessions have one that were left out then.

    Where more of these have an alarm than may be, and than chance explains, rules are chosen more strictly.
    """
    for share in _SHARES:
        budget = share * most_alarms * len(tried.judged)
        alarmed = _left_out(tried, unfit, budget)
        if surprise(alarmed, len(tried.judged), most_alarms) <= -log(_ERROR):
            return budget, alarmed
    return 0.0, 0


def _left_out(tried: _Tried, unfit: Mapping[str, str], most_alarms: float) -> int:
    """Return how many sessions have an alarm of rules that were mined and chosen without their fold."""
    alarmed = 0
    for fold, (found, fired) in enumerate(zip(tried.by_fold, tried.alarms, strict=True)):
        chosen = choose(_fit(found, unfit), tried.alarms_without(fold), most_alarms)
        alarmed += len(set().union(*(fired.by_rule.get(candidate.id, ()) for candidate in chosen)))
    return alarmed


def _lessons(
    tried: _Tried,
    alarms: Mapping[str, Set[str]],
    unfit: Mapping[str, str],
    chosen: Sequence[RuleCandidate],
) -> list[Lesson]:
    """Return the candidates that are proposed, and then the others, each with the reason."""
    proposed = {candidate.id for candidate in chosen}
    others = [one for one in tried.whole.values() if one.id not in proposed]
    reasons = {one.id: "better rules take up the alarms" for one in others}
    reasons |= {one.id: "rests on too little" for one in others if not is_sure(one, alarms.get(one.id, frozenset()))}
    reasons |= {other: "says no more than another" for one in chosen for other in one.covers}
    reasons |= unfit
    lessons: list[Lesson] = []
    for candidate in (*chosen, *ranked(others)):
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
    others = [{rule: one for rule, one in found.items() if not one.is_same_rule(whole[rule])} for found in by_fold]
    policies = [as_policy(found.values(), registry) for found in (*others, whole)]
    fired = judge(read(), policies, {name: (folds[name], FOLDS) for name in judged}, limits)
    broken, for_each = fired[FOLDS].by_rule, len(folds) / max(1, len(judged))
    for fold, found in enumerate(by_fold):  # what is the same rule without the fold was judged with the whole
        for rule in found.keys() - others[fold].keys():
            fired[fold].by_rule[rule] = {name for name in broken.get(rule, ()) if folds[name] == fold}

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


# Sessions that are unlike nearly all others: somebody may have put them among the fine ones.


_RARE: Final = 0.05  # the share of sessions that may do what nearly all others do not
_REASONS: Final = 3  # that make a session odd


def find_odd(facts: Facts, judged: Container[str], broken: Mapping[str, Set[str]]) -> list[OddSession]:
    """Return the sessions that break several rules or habits which nearly all others keep, the oddest first."""
    sessions = [session for session in facts.sessions if session.session_id in judged]
    few = _RARE * len(sessions) + 1
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for rule, names in broken.items():
        for name in names if len(names) <= few else ():
            reasons[name].append(rule)
    calls = Shares(facts).sessions
    rare = {tool for tool, count in calls.items() if count <= _RARE * len(facts.sessions)}
    usual = {tool for tool, count in calls.items() if count >= (1 - _RARE) * len(facts.sessions)}
    for session in sessions:
        called = {call.tool for call in session.calls}
        reasons[session.session_id] += [f"calls {tool}" for tool in sorted(rare & called)]
        reasons[session.session_id] += [f"does not call {tool}" for tool in sorted(usual - called)]
    odd = [OddSession(name, tuple(found)) for name, found in reasons.items() if len(found) >= _REASONS]
    return sorted(odd, key=lambda one: (-len(one.reasons), one.session_id))
