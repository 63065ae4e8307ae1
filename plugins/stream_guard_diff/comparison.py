"""The diff itself: two sets of recorded sessions in, everything that changed out, first what a policy finds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
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
    Sides,
    evaluate,
    make_alert,
)
from stream_guard_diff.alignment import AlignedStep, Divergence, align_sessions, ranked
from stream_guard_diff.gate import ChangeLevel, FailOn, PairBy, level_named, level_of_finding
from stream_guard_diff.judging import NoiseReport, Thresholds, measure_noise
from stream_guard_diff.pairing import TASK_LABEL, HowPaired, LeftOutSession, Pairing, pair_trails
from stream_guard_diff.statistics import AxisReport, Drift, hotelling, judge, session_fingerprints
from stream_guard_diff.trails import SessionTrail, read_trails


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


# The diff itself: two sets of recorded sessions in, everything that changed out.

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
    paired_by: HowPaired | None = None  # None: it has no partner
    task: str = ""  # what the two have in common


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
    noise: NoiseReport = NoiseReport()
    left_out: tuple[LeftOutSession, ...] = ()
    further_trials: tuple[str, ...] = ()  # sessions that only the measures count: their task has a pair already
    samples: bool = False  # nothing could be paired: the sides are compared as two samples, and no turns are aligned

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
    how: HowPaired | None = None
    task: str = ""


@dataclass(frozen=True, slots=True)
class Diff:
    """The report, and the recordings that it compares."""

    report: DiffReport
    timelines: Sequence[Timeline]


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """How two recordings are compared, where it is not the usual way."""

    pair_by: PairBy = "auto"
    task_label: str = TASK_LABEL
    thresholds: Thresholds = field(default_factory=Thresholds)


def diff(
    baseline: Iterable[Event],
    candidate: Iterable[Event],
    *,
    axes: Mapping[str, type[DiffAxis]],
    policy: Policy | None = None,
    prices: Mapping[str, Mapping[str, float]] | None = None,
    again: Sequence[Iterable[Event]] = (),
    options: DiffOptions | None = None,
) -> Diff:
    """Compare two sets of recorded sessions.

    Sessions belong together by their task, else by id, else by what the user asked; ``options`` may say otherwise.
    ``again`` are further runs of the baseline: they show how much the agent differs from itself. ``axes`` are those of
    the registry.
    """
    options = options or DiffOptions()
    runs = [list(run) for run in (baseline, *again)]
    events = list(candidate)
    by_run = [read_trails(run) for run in runs]
    old, new = [trail for trails in by_run for trail in trails], read_trails(events)
    pairing = pair_trails(old, new, by=options.pair_by, label=options.task_label)
    timelines = _timelines(pairing, old, new)
    sides = tuple((timeline.baseline, timeline.candidate) for timeline in timelines)
    compared = Sides(sessions=sides, pairs=tuple(_paired_turns(timelines)), prices=prices or {})
    judged = [judge(axis(), axis().measure(compared)) for axis in axes.values()]
    counts = Counts()
    changes = compare_rules(runs, by_run, events, new, pairing, policy, counts)
    report = _report(timelines, judged, changes, policy.version if policy else "")
    places = _members(pairing)
    report = msgspec.structs.replace(
        report,
        drift=_drift(([old[place].recording for place in places[0]], [new[place].recording for place in places[1]])),
        unevaluable=sum(counts.unevaluable.values()),
        rule_errors=sum(counts.rule_errors.values()),
        noise=measure_noise(pairing, old, new, changes.broken, policy, options.thresholds),
        left_out=_left_out(pairing, old, new),
        further_trials=_further_trials(pairing, old, new),
        samples=any(stratum.how == "samples" for stratum in pairing.strata),
    )
    return Diff(report, timelines)


def _report(
    timelines: Sequence[Timeline], judged: Sequence[AxisReport], changes: RuleChanges, version: str
) -> DiffReport:
    regressions = tuple(make_alert(finding, version) for finding in changes.regressions)
    levels = [level_named(axis.severity) for axis in judged]
    levels += [level_of_finding(alert.severity) for alert in regressions]
    divergences = [divergence for timeline in timelines for divergence in timeline.divergences]
    return DiffReport(
        severity=max(levels, default=ChangeLevel.NONE).word,
        axes=tuple(sorted(judged, key=lambda axis: -level_named(axis.severity))),  # a reader begins at the top
        first_divergence=divergences[0] if divergences else None,
        divergences=tuple(ranked(divergences)),
        divergence_count=len(divergences),
        sessions=tuple(map(_session_report, timelines)),
        regressions=regressions,
        fixes=tuple(make_alert(finding, version) for finding in changes.fixes),
        policy_version=version,
    )


def _timelines(pairing: Pairing, old: Sequence[SessionTrail], new: Sequence[SessionTrail]) -> list[Timeline]:
    """Align the sessions that belong together, in the baseline's order; one that is left out stands beside nothing."""
    nothing = Recording(session_id="")
    made = [
        (first, _timeline(old[first].recording, new[second].recording, stratum.how, stratum.name))
        for stratum in pairing.strata
        for first, second in stratum.pairs
    ]
    made += [(place, _timeline(old[place].recording, nothing)) for side, place, _ in pairing.left_out if side == 0]
    made.sort(key=lambda placed: placed[0])
    only_new = [_timeline(nothing, new[place].recording) for side, place, _ in pairing.left_out if side == 1]
    return [timeline for _, timeline in made] + only_new


def _members(pairing: Pairing) -> tuple[list[int], list[int]]:
    return (
        [place for stratum in pairing.strata for place in stratum.baseline],
        [place for stratum in pairing.strata for place in stratum.candidate],
    )


def _left_out(pairing: Pairing, old: Sequence[SessionTrail], new: Sequence[SessionTrail]) -> tuple[LeftOutSession, ...]:
    return tuple(
        LeftOutSession(
            session_id=(new if side else old)[place].session_id, side="candidate" if side else "baseline", why=why
        )
        for side, place, why in pairing.left_out
    )


def _further_trials(pairing: Pairing, old: Sequence[SessionTrail], new: Sequence[SessionTrail]) -> tuple[str, ...]:
    found: list[str] = []
    for stratum in pairing.strata:
        if stratum.how != "samples":
            shown = {first for first, _ in stratum.pairs}, {second for _, second in stratum.pairs}
            found += [old[place].session_id for place in stratum.baseline if place not in shown[0]]
            found += [new[place].session_id for place in stratum.candidate if place not in shown[1]]
    return tuple(found)


def _paired_turns(timelines: Iterable[Timeline]) -> Iterator[tuple[RecordedTurn, RecordedTurn]]:
    for timeline in timelines:
        for step in timeline.steps:
            if step.is_pair:
                yield timeline.baseline.turns[step.old], timeline.candidate.turns[step.new]


def _timeline(old: Recording, new: Recording, how: HowPaired | None = None, task: str = "") -> Timeline:
    steps, divergences = align_sessions(old.turns, new.turns)
    name = new.session_id or old.session_id
    named = [msgspec.structs.replace(found, session_id=name) for found in divergences]
    return Timeline(old, new, steps, named, how, task)


def _session_report(timeline: Timeline) -> SessionReport:
    return SessionReport(
        baseline=timeline.baseline.session_id,
        candidate=timeline.candidate.session_id,
        baseline_turns=len(timeline.baseline.turns),
        candidate_turns=len(timeline.candidate.turns),
        divergences=len(timeline.divergences),
        first=timeline.divergences[0] if timeline.divergences else None,
        paired_by=timeline.how,
        task=timeline.task,
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
