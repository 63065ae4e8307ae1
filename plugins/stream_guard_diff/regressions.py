"""Which findings a candidate brings and which it clears, against a baseline."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from stream_guard import Finding


@dataclass(frozen=True, slots=True)
class Comparison:
    """What only the candidate has, and what only the baseline had."""

    regressions: tuple[Finding, ...]
    fixes: tuple[Finding, ...]


def compare(
    baseline: Mapping[Hashable, Iterable[Finding]], candidate: Mapping[Hashable, Iterable[Finding]]
) -> Comparison:
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
    return Comparison(tuple(regressions), tuple(fixes))


def _by_rule(findings: Iterable[Finding]) -> defaultdict[str, list[Finding]]:
    grouped: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        grouped[finding.slot].append(finding)
    return grouped


def _unmatched(old: list[Finding], new: list[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Drop what stands at the same turn on both sides, then as many of the rest as find a partner."""
    places_old, places_new = Counter(one.index for one in old), Counter(one.index for one in new)
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
