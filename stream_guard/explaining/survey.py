"""A survey of recordings: their sessions in numbers, what a policy finds in them, and what became of one rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import msgspec

from stream_guard.explaining.near_misses import NearMiss, NearMisses
from stream_guard.explaining.states import show_all, watch
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, SessionEnd, Severity, ToolCall, Turn
from stream_guard.judge.rule import State, Verdict
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.reports.safe import visible
from stream_guard.settings import SessionLimits

_MOST_TOOLS: Final = 20


class SessionSummary(msgspec.Struct, kw_only=True):
    """One recorded session in numbers."""

    session_id: str
    agent: str = ""
    events: int = 0
    turns: int = 0
    calls: int = 0
    begun: float | None = None
    ended: float | None = None
    findings: int = 0
    worst: str = ""  # the severity of the worst finding


class RuleSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one rule in all sessions."""

    sessions: int
    fired: int  # sessions in which it did
    findings: int
    judged: int  # events
    lacking: dict[str, int] = {}
    near_miss: NearMiss | None = None
    tools: dict[str, int] = {}  # calls that were seen, by tool


class SessionSurvey:
    """The sessions of recordings, as rules see them, and what a policy finds in them."""

    def __init__(self, policy: Policy | None = None, limits: SessionLimits | None = None) -> None:
        self.sessions: dict[str, SessionSummary] = {}
        self.findings: list[Finding] = []
        shown = show_all(policy or Policy(rules=(), version=""), self._count)
        self._judge = Judge(shown, limits)

    def read(self, events: Iterable[Event]) -> None:
        """Take in all events; the end of the input ends every session."""
        for event in events:
            self.findings += self._judge.feed(event).findings
        self.findings += self._judge.end()
        worst: dict[str, Severity] = {}
        for finding in self.findings:
            session_id = finding.session_id
            worst[session_id] = max(finding.severity, worst.get(session_id, finding.severity))
            self._summary(session_id).findings += 1
        for session_id, severity in worst.items():
            self.sessions[session_id].worst = severity.word

    def _summary(self, session_id: str) -> SessionSummary:
        summary = self.sessions.get(session_id)
        if summary is None:
            summary = self.sessions[session_id] = SessionSummary(session_id=session_id)
        return summary

    def _count(self, event: Event) -> None:
        summary = self._summary(event.session_id)
        if isinstance(event, SessionEnd):
            return
        summary.events += 1
        summary.turns += isinstance(event, Turn)
        summary.calls += isinstance(event, ToolCall)
        summary.agent = summary.agent or event.agent
        if event.time is not None:
            summary.begun = event.time if summary.begun is None else min(summary.begun, event.time)
            summary.ended = event.time if summary.ended is None else max(summary.ended, event.time)


class _RuleWitness:
    """Notes how often one rule judged, how near it came, and what else there was to see."""

    def __init__(self, policy: Policy) -> None:
        self.misses = NearMisses(policy)
        self.judged = 0
        self.sessions: set[str] = set()
        self.tools: Counter[str] = Counter()

    def see(self, event: Event) -> None:
        """Note the session and the tool."""
        self.sessions.add(event.session_id)
        if isinstance(event, ToolCall):
            self.tools[visible(event.tool)] += 1
        self.misses.see(event)

    def answered(
        self, number: int, shown: Event | float, _before: bytes, state: State, verdict: Verdict, *, inside: bool
    ) -> None:
        """Note the judgement."""
        if number != 0:
            return  # a rule that only sets labels for the first one
        self.judged += inside and not isinstance(shown, float | int | SessionEnd)
        self.misses.answered(number, shown, state, verdict, inside=inside)


def survey_rule(events: Iterable[Event], policy: Policy, spec: RuleSpec, limits: SessionLimits | None) -> RuleSurvey:
    """Return what became of one rule of a policy in all sessions: where it fired, and where it came closest."""
    others = [one for one in policy.rules if one.set_labels and one.slot != spec.slot]  # it may wait for their labels
    needed = replace(policy, rules=(spec, *others))
    witness, counts = _RuleWitness(needed), Counts()
    judge = Judge(watch(needed, witness), limits, counts=counts)
    found: list[Finding] = []
    for event in events:
        found += judge.feed(event).findings
    found += judge.end()
    mine = [finding for finding in found if finding.slot == spec.slot]
    fired = {finding.session_id for finding in mine}
    witness.misses.fired |= {(0, session_id) for session_id in fired}  # those of deadlines too
    return RuleSurvey(
        sessions=len(witness.sessions),
        fired=len(fired),
        findings=len(mine),
        judged=witness.judged,
        lacking={lacks: times for (rule_id, lacks), times in counts.lacking.items() if rule_id == spec.id},
        near_miss=witness.misses.nearest_of_all(0),
        tools=dict(witness.tools.most_common(_MOST_TOOLS)),
    )
