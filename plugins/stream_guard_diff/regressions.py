"""Regressions and fixes: the findings of a policy that only one side has."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from stream_guard import Counts, Event, Finding, Policy, Recording, evaluate


@dataclass(frozen=True, slots=True)
class PolicyChanges:
    """What only the candidate has, and what only the baseline had."""

    regressions: tuple[Finding, ...] = ()
    fixes: tuple[Finding, ...] = ()


def find_regressions(
    events: Sequence[Iterable[Event]],
    pairs: Sequence[tuple[Recording, Recording]],
    policy: Policy | None,
    counts: Counts,
) -> PolicyChanges:
    """Hold both sides against the policy; rules in shadow mode do not count."""
    if policy is None:
        return PolicyChanges()
    grouped = []
    for number, side in enumerate(events):
        partners = {pair[number].session_id: place for place, pair in enumerate(pairs) if pair[number].session_id}
        findings: defaultdict[Hashable, list[Finding]] = defaultdict(list)
        for finding in evaluate(side, policy, counts=counts):
            if not finding.shadow:
                findings[partners.get(finding.session_id, finding.session_id)].append(finding)
        grouped.append(findings)
    return compare(*grouped)


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
