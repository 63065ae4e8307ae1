"""The diff itself: two sets of recorded sessions in, everything that changed out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from stream_guard import Alert, Counts, DiffAxis, Event, Policy, RecordedTurn, Recording, Sides, make_alert
from stream_guard_diff.alignment import AlignedStep
from stream_guard_diff.divergence import Divergence, align_sessions, ranked
from stream_guard_diff.fingerprint import session_fingerprints
from stream_guard_diff.gate import ChangeLevel, FailOn, level_named, level_of_finding
from stream_guard_diff.hotelling import Drift, hotelling
from stream_guard_diff.regressions import find_regressions
from stream_guard_diff.statistics import AxisReport, judge
from stream_guard_diff.turns import recordings_of

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
    def level(self) -> ChangeLevel:
        """The severity, as a value to compare."""
        return level_named(self.severity)

    def trips(self, fail_on: FailOn) -> bool:
        """Whether the worst of the axes and of the policy's regressions is at or over the gate."""
        return fail_on.fails(self.level)

    def reasons(self, fail_on: FailOn) -> list[str]:
        """Return what trips the gate, in words: which axes, which rules."""
        axes = [f"{axis.name} is {axis.severity}" for axis in self.axes if fail_on.fails(level_named(axis.severity))]
        rules = {
            alert.rule_id: alert.severity
            for alert in self.regressions
            if fail_on.fails(level_of_finding(alert.severity))
        }
        return axes + [f"rule {rule} ({severity}) is broken where it was not" for rule, severity in rules.items()]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Two sessions side by side, as they were aligned."""

    baseline: Recording
    candidate: Recording
    steps: Sequence[AlignedStep]
    divergences: Sequence[Divergence]


@dataclass(frozen=True, slots=True)
class Diff:
    """The report, and the recordings that it compares."""

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
    compared = Sides(sessions=tuple(pairs), pairs=tuple(_paired_turns(timelines)), prices=prices or {})
    judged = [judge(axis(), axis().measure(compared)) for axis in axes.values()]
    counts = Counts()
    changes = find_regressions(events, pairs, policy, counts)
    version = policy.version if policy else ""
    regressions = tuple(make_alert(finding, version) for finding in changes.regressions)
    levels = [level_named(axis.severity) for axis in judged]
    levels += [level_of_finding(alert.severity) for alert in regressions]
    divergences = [divergence for timeline in timelines for divergence in timeline.divergences]
    report = DiffReport(
        severity=max(levels, default=ChangeLevel.NONE).word,
        axes=tuple(sorted(judged, key=lambda axis: -level_named(axis.severity))),  # a reader begins at the top
        first_divergence=divergences[0] if divergences else None,
        divergences=tuple(ranked(divergences)),
        divergence_count=len(divergences),
        sessions=tuple(map(_session_report, timelines)),
        regressions=regressions,
        fixes=tuple(make_alert(finding, version) for finding in changes.fixes),
        policy_version=version,
        drift=_drift(sides),
        unevaluable=sum(counts.unevaluable.values()),
        rule_errors=sum(counts.rule_errors.values()),
    )
    return Diff(report, timelines)


def _paired_turns(timelines: Iterable[Timeline]) -> Iterator[tuple[RecordedTurn, RecordedTurn]]:
    for timeline in timelines:
        for step in timeline.steps:
            if step.is_pair:
                yield timeline.baseline.turns[step.old], timeline.candidate.turns[step.new]


def pair_sessions(old: Sequence[Recording], new: Sequence[Recording]) -> list[tuple[Recording, Recording]]:
    """Return which sessions belong together; one without a partner is paired with an empty one."""
    by_id = {recording.session_id: recording for recording in new}
    shared = {recording.session_id for recording in old} & set(by_id)
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
    kept = [(recording, by_id.get(recording.session_id, nothing)) for recording in old]
    return kept + [(nothing, recording) for recording in new if recording.session_id not in shared]


def _timeline(old: Recording, new: Recording) -> Timeline:
    steps, divergences = align_sessions(old.turns, new.turns)
    name = new.session_id or old.session_id
    return Timeline(old, new, steps, [msgspec.structs.replace(found, session_id=name) for found in divergences])


def _session_report(timeline: Timeline) -> SessionReport:
    return SessionReport(
        baseline=timeline.baseline.session_id,
        candidate=timeline.candidate.session_id,
        baseline_turns=len(timeline.baseline.turns),
        candidate_turns=len(timeline.candidate.turns),
        divergences=len(timeline.divergences),
        first=timeline.divergences[0] if timeline.divergences else None,
    )


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
