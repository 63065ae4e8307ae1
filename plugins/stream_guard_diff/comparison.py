"""The diff itself: two sets of recorded sessions in, everything that changed out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from stream_guard import (
    Alert,
    Counts,
    DiffAxis,
    Event,
    Finding,
    Policy,
    RecordedTurn,
    Recording,
    Severity,
    Sides,
    evaluate,
    make_alert,
)
from stream_guard_diff.alignment import Step
from stream_guard_diff.divergence import Divergence, ranked, walk
from stream_guard_diff.fingerprint import session_fingerprints
from stream_guard_diff.hotelling import Drift, hotelling
from stream_guard_diff.regressions import compare
from stream_guard_diff.statistics import AxisReport, Level, judge
from stream_guard_diff.turns import recordings_of

LEVELS: Final = {
    Severity.INFO: Level.MINOR,
    Severity.WARNING: Level.MODERATE,
    Severity.ERROR: Level.SEVERE,
    Severity.CRITICAL: Level.SEVERE,
}
ENOUGH_SESSIONS: Final = 4  # on each side; under this, no way of dealing them out would be rare enough to mean anything
DEALS: Final = 999


class SessionReport(msgspec.Struct, frozen=True, kw_only=True):
    """One session against its partner."""

    baseline: str  # empty where the session is only on the other side
    candidate: str
    baseline_turns: int
    candidate_turns: int
    divergences: int
    first: Divergence | None


class DriftReport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the sets of sessions behave alike, and what moved most, in standard deviations."""

    test: Drift
    moved: tuple[tuple[str, float], ...]


class DiffReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a reviewer or a gate asks for, without the recordings."""

    severity: str  # the worst of the axes and the policy
    axes: tuple[AxisReport, ...]
    first_divergence: Divergence | None
    divergences: tuple[Divergence, ...]  # those that matter most
    divergence_count: int
    sessions: tuple[SessionReport, ...]
    regressions: tuple[Alert, ...] = ()
    fixes: tuple[Alert, ...] = ()
    policy_version: str = ""
    drift: DriftReport | None = None
    unevaluable: int = 0  # judgements of the policy that could not be made
    rule_errors: int = 0

    @property
    def level(self) -> Level:
        """The severity, as something to compare with."""
        return Level[self.severity.upper()]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Two sessions side by side, as they were aligned."""

    baseline: Recording
    candidate: Recording
    steps: Sequence[Step]
    divergences: Sequence[Divergence]


@dataclass(frozen=True, slots=True)
class Diff:
    """The report, and the recordings it speaks of."""

    report: DiffReport
    timelines: Sequence[Timeline]


def diff(
    baseline: Iterable[Event],
    candidate: Iterable[Event],
    *,
    axes: Mapping[str, type[DiffAxis]],
    policy: Policy | None = None,
    prices: Mapping[str, Mapping[str, float]] | None = None,
) -> Diff:
    """Compare two sets of recorded sessions.

    Sessions that have the same id on both sides belong together; where no id is on both sides, the first
    belongs to the first, the second to the second. ``axes`` are those of the registry.
    """
    events = list(baseline), list(candidate)
    sides = recordings_of(events[0]), recordings_of(events[1])
    pairs = pair_sessions(*sides)
    timelines = [_timeline(old, new) for old, new in pairs]
    aligned: list[tuple[RecordedTurn, RecordedTurn]] = []
    for one in timelines:
        aligned += [(one.baseline.turns[step.old], one.candidate.turns[step.new]) for step in one.steps if step.is_pair]
    compared = Sides(sessions=tuple(pairs), pairs=tuple(aligned), prices=prices or {})
    judged = tuple(judge(axis(), axis().measure(compared)) for axis in axes.values())
    counts = Counts()
    changed = _regressions(events, pairs, policy, counts)
    levels = [Level[one.severity.upper()] for one in judged] + [LEVELS[one.severity] for one in changed["regressions"]]
    divergences = [found for one in timelines for found in one.divergences]
    version = policy.version if policy else ""
    report = DiffReport(
        severity=max(levels, default=Level.NONE).word,
        axes=tuple(sorted(judged, key=lambda one: -Level[one.severity.upper()])),  # a reader begins at the top
        first_divergence=divergences[0] if divergences else None,
        divergences=tuple(ranked(divergences)),
        divergence_count=len(divergences),
        sessions=tuple(map(_session_report, timelines)),
        regressions=tuple(make_alert(one, version) for one in changed["regressions"]),
        fixes=tuple(make_alert(one, version) for one in changed["fixes"]),
        policy_version=version,
        drift=_drift(sides),
        unevaluable=sum(counts.unevaluable.values()),
        rule_errors=sum(counts.rule_errors.values()),
    )
    return Diff(report, timelines)


def pair_sessions(old: Sequence[Recording], new: Sequence[Recording]) -> list[tuple[Recording, Recording]]:
    """Return which sessions belong together; one without a partner is paired with an empty one."""
    by_id = {one.session_id: one for one in new}
    shared = {one.session_id for one in old} & set(by_id)
    nothing = Recording(session_id="")
    if not shared:
        longest = max(len(old), len(new))
        return list(
            zip(
                [*old, *[nothing] * (longest - len(old))],
                [*new, *[nothing] * (longest - len(new))],
                strict=True,
            )
        )
    kept = [(one, by_id.get(one.session_id, nothing)) for one in old]
    return kept + [(nothing, one) for one in new if one.session_id not in shared]


def _timeline(old: Recording, new: Recording) -> Timeline:
    steps, found = walk(old.turns, new.turns)
    name = new.session_id or old.session_id
    return Timeline(old, new, steps, [msgspec.structs.replace(one, session_id=name) for one in found])


def _session_report(one: Timeline) -> SessionReport:
    return SessionReport(
        baseline=one.baseline.session_id,
        candidate=one.candidate.session_id,
        baseline_turns=len(one.baseline.turns),
        candidate_turns=len(one.candidate.turns),
        divergences=len(one.divergences),
        first=one.divergences[0] if one.divergences else None,
    )


def _regressions(
    events: tuple[list[Event], list[Event]],
    pairs: Sequence[tuple[Recording, Recording]],
    policy: Policy | None,
    counts: Counts,
) -> dict[str, Sequence[Finding]]:
    """Hold both sides against the policy; rules in shadow mode are not asked to gate anything."""
    if policy is None:
        return {"regressions": (), "fixes": ()}
    grouped = []
    for number, side in enumerate(events):
        partners = {pair[number].session_id: place for place, pair in enumerate(pairs) if pair[number].session_id}
        findings: defaultdict[Hashable, list[Finding]] = defaultdict(list)
        for finding in evaluate(side, policy, counts=counts):
            if not finding.shadow:
                findings[partners.get(finding.session_id, finding.session_id)].append(finding)
        grouped.append(findings)
    changed = compare(*grouped)
    return {"regressions": changed.regressions, "fixes": changed.fixes}


def _drift(sides: tuple[Sequence[Recording], Sequence[Recording]]) -> DriftReport | None:
    """Test two sets of sessions for drift, in the dimensions that vary at all."""
    if min(map(len, sides)) < ENOUGH_SESSIONS:
        return None
    names, (old, new) = session_fingerprints(sides)
    everything = np.concatenate([old, new])
    varies = np.ptp(everything, axis=0) > 1e-12
    if not varies.any():
        return None
    old, new = old[:, varies], new[:, varies]
    spread = everything[:, varies].std(axis=0)
    moved: Any = (new.mean(axis=0) - old.mean(axis=0)) / spread
    kept = [name for name, moves in zip(names, varies, strict=True) if moves]
    order = sorted(range(len(kept)), key=lambda place: -abs(moved[place]))[:3]
    return DriftReport(
        test=hotelling(old, new, permutations=DEALS),
        moved=tuple((kept[place], float(moved[place])) for place in order),
    )
