"""The two surfaces that a gate looks at, measured against chance: the rules of the policy, and behaviour."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from math import comb
from typing import Final

import msgspec

from stream_guard import Policy
from stream_guard_diff.effects import rows_of
from stream_guard_diff.improvements import improved_faults, judge_surface
from stream_guard_diff.judging import NoiseReport, Thresholds
from stream_guard_diff.measured import POLICY_LEVEL
from stream_guard_diff.measures import ItemTable, SessionItem, measure_sessions
from stream_guard_diff.pairing import Pairing, Stratum
from stream_guard_diff.trails import SessionTrail

BLOCKING: Final = ("error", "critical")  # severities of rules that block; the others are reported


def measure_noise(  # both sides, how they are paired, and what they are held to
    pairing: Pairing,
    old: Sequence[SessionTrail],
    new: Sequence[SessionTrail],
    broken: Sequence[Set[str]],
    policy: Policy | None,
    thresholds: Thresholds,
) -> NoiseReport:
    """Measure every session, and hold the difference of the sides against what chance does inside the strata."""
    strata = pairing.strata
    report = NoiseReport(
        level=thresholds.level,
        baseline=sum(len(stratum.baseline) for stratum in strata),
        candidate=sum(len(stratum.candidate) for stratum in strata),
        strata=len(strata),
        not_measured=_cannot_be_measured(strata, POLICY_LEVEL * thresholds.level),
    )
    if report.not_measured:
        return report
    names = [trail.session_id for trail in new]
    table = measure_sessions((*old, *new), _tasks(strata, len(old), len(new)))
    words = table.split_off("words")
    rules = _rule_table(broken, policy) if policy else ItemTable(len(broken))
    judged = judge_surface(strata, rules, len(old), names, replace(thresholds, level=POLICY_LEVEL * thresholds.level))
    fixed = improved_faults(judged, rules.items, rules.matrix()) if judged else None
    # By themselves: words never block, and what never blocks must not make the rest harder to see.
    behaviour = judge_surface(strata, table, len(old), names, thresholds, fixed)
    behaviour += judge_surface(strata, words, len(old), names, thresholds)
    return msgspec.structs.replace(report, policy=judged, behaviour=behaviour)


def _cannot_be_measured(strata: Sequence[Stratum], level: float) -> str:
    """Return why chance cannot be told from change, or nothing: there are too few ways to deal the sessions out."""
    ways = 1.0
    for stratum in strata:
        ways *= comb(len(stratum.baseline) + len(stratum.candidate), len(stratum.candidate))
        if ways > 1 / level:
            return ""
    sessions = sum(len(stratum.baseline) for stratum in strata), sum(len(stratum.candidate) for stratum in strata)
    return f"{sessions[0]} against {sessions[1]} sessions are too few to tell change from chance"


def _tasks(strata: Sequence[Stratum], before: int, after: int) -> list[int]:
    """Return the number of each session's stratum; one that is in none has a number of its own."""
    tasks = list(range(len(strata), len(strata) + before + after))
    for number, stratum in enumerate(strata):
        for row in rows_of(stratum, before):
            tasks[row] = number
    return tasks


def _rule_table(broken: Sequence[Set[str]], policy: Policy) -> ItemTable:
    table = ItemTable(len(broken))
    for rule in policy.rules:
        axis = "rules" if rule.severity.word in BLOCKING else "lesser_rules"
        item = SessionItem(axis, f"breaks the rule {rule.id}", 1, rule=rule.id)
        table.add(item, [rule.id in found for found in broken], always=any(rule.id in found for found in broken))
    return table
