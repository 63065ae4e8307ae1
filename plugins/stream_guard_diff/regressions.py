"""Regressions and fixes: the findings of a policy that only one side has."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from stream_guard import Counts, Event, Finding, Policy, evaluate
from stream_guard_diff.pairing import Pairing
from stream_guard_diff.trails import SessionTrail


@dataclass(frozen=True, slots=True)
class PolicyChanges:
    """What only the candidate has, and what only the baseline had."""

    regressions: tuple[Finding, ...] = ()
    fixes: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleChanges(PolicyChanges):
    """The same, with the rules that each session breaks: one set a session, the baseline's first."""

    broken: Sequence[Set[str]] = ()


def compare_rules(  # both sides, each as events and as sessions, and what they are held to
    runs: Sequence[Sequence[Event]],
    by_run: Sequence[Sequence[SessionTrail]],
    events: Sequence[Event],
    new: Sequence[SessionTrail],
    pairing: Pairing,
    policy: Policy | None,
    counts: Counts,
) -> RuleChanges:
    """Hold both sides against the policy; rules in shadow mode do not count. ``runs`` are those of the baseline."""
    if policy is None:
        return RuleChanges()
    old_findings = [
        found for run, trails in zip(runs, by_run, strict=True) for found in _by_session(run, trails, policy, counts)
    ]
    new_findings = _by_session(events, new, policy, counts)
    changes = _match(pairing, old_findings, new_findings)
    broken = [{finding.rule_id for finding in found} for found in (*old_findings, *new_findings)]
    return RuleChanges(changes.regressions, changes.fixes, broken)


def _by_session(
    events: Iterable[Event], trails: Sequence[SessionTrail], policy: Policy, counts: Counts
) -> list[list[Finding]]:
    places = {trail.session_id: place for place, trail in enumerate(trails)}
    found: list[list[Finding]] = [[] for _ in trails]
    for finding in evaluate(events, policy, counts=counts):
        if not finding.shadow and finding.session_id in places:
            found[places[finding.session_id]].append(finding)
    return found


def _match(pairing: Pairing, old: Sequence[list[Finding]], new: Sequence[list[Finding]]) -> PolicyChanges:
    """Match findings pair by pair, and what is left out against nothing; samples by how many sessions break a rule."""
    sides: tuple[dict[Hashable, list[Finding]], dict[Hashable, list[Finding]]] = ({}, {})
    regressions: list[Finding] = []
    fixes: list[Finding] = []
    for number, stratum in enumerate(pairing.strata):
        for first, second in stratum.pairs:
            sides[0][number, first, second], sides[1][number, first, second] = old[first], new[second]
        if stratum.how == "samples":
            before, after = [old[place] for place in stratum.baseline], [new[place] for place in stratum.candidate]
            regressions += _broken_more(after, before)
            fixes += _broken_more(before, after)
    for side, place, _ in pairing.left_out:
        sides[side]["left out", side, place] = (new if side else old)[place]
    changes = compare(*sides)
    return PolicyChanges(changes.regressions + tuple(regressions), changes.fixes + tuple(fixes))


def _broken_more(here: Sequence[list[Finding]], there: Sequence[list[Finding]]) -> Iterator[Finding]:
    """Yield the findings of rules that a larger share of the sessions breaks here than there."""
    shares = [Counter(rule for found in side for rule in {one.slot for one in found}) for side in (here, there)]
    for found in here:
        for finding in found:
            if shares[0][finding.slot] * len(there) > shares[1][finding.slot] * len(here):
                yield finding


def compare(
    baseline: Mapping[Hashable, Iterable[Finding]], candidate: Mapping[Hashable, Iterable[Finding]]
) -> PolicyChanges:
    """Match the findings of two sides, session by session and rule by rule, as multisets.

    Words do not matter and neither does the turn: one call more is one regression, and a finding that
    moved by a turn is neither a regression nor a fix.
    """
    regressions: list[Finding] = []
    fixes: list[Finding] = []
    for session in dict.fromkeys((*baseline, *candidate)):
        old, new = _by_rule(baseline.get(session, ())), _by_rule(candidate.get(session, ()))
        for rule in dict.fromkeys((*old, *new)):
            only_old, only_new = _unmatched(old[rule], new[rule])
            fixes += only_old
            regressions += only_new
    return PolicyChanges(tuple(regressions), tuple(fixes))


def _by_rule(findings: Iterable[Finding]) -> defaultdict[str, list[Finding]]:
    grouped: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        grouped[finding.slot].append(finding)
    return grouped


def _unmatched(old: list[Finding], new: list[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Drop findings at the same turn of both sides, then pair the rest in order and drop the pairs."""
    places_old, places_new = Counter(finding.index for finding in old), Counter(finding.index for finding in new)
    shared = places_old & places_new
    rest_old, rest_new = _without(old, shared), _without(new, shared)
    paired = min(len(rest_old), len(rest_new))
    return rest_old[paired:], rest_new[paired:]


def _without(findings: list[Finding], shared: Counter[int | None]) -> list[Finding]:
    left = Counter(shared)
    rest = []
    for finding in findings:
        if left[finding.index] > 0:
            left[finding.index] -= 1
        else:
            rest.append(finding)
    return rest
