"""Try a policy on recordings: which rules fire in how many sessions, and which could not judge."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Final

from stream_guard.decoding.places import RecordPlaces
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, Severity, Turn
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.policy.gates import events_handled
from stream_guard.settings import Settings

# The share of sessions in which a rule may fire and still be in force from the first day. A grave rule is about acts,
# which recordings of trouble are full of; a light one that fires often is about how this agent works.
NOISE: Final = {Severity.CRITICAL: 0.5, Severity.ERROR: 0.25, Severity.WARNING: 0.05, Severity.INFO: 0.02}
_SELDOM: Final = 0.02  # the share for a rule that its pack has in shadow mode: elsewhere it was noisy
A_FEW: Final = 3  # sessions that are looked at, whatever their share, unless they are a fifth of all
_UNJUDGED: Final = 0.5  # the share of its events that a rule may be unable to judge and still be taken


@dataclass(slots=True)
class Trial:
    """What a policy found."""

    policy: Policy
    sessions: set[str] = field(default_factory=set)
    fired: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # sessions, by rule
    findings: list[Finding] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)

    def noisy(self) -> list[str]:
        """Return the rules that fire in more sessions than a person would look at on the first day."""
        return [
            spec.id for spec in self.policy.rules if len(self.fired.get(spec.id, ())) > self._most(NOISE[spec.severity])
        ]

    def telling(self, among: Container[str]) -> list[str]:
        """Return the rules in shadow mode, of those named, that say little enough here to be looked at."""
        told = Counter(finding.rule_id for finding in self.findings)
        shadow = [spec.id for spec in self.policy.rules if spec.shadow and spec.id in among]
        return [rule for rule in shadow if 0 < told[rule] <= self._most(_SELDOM)]

    def _most(self, share: float) -> int:
        sessions = len(self.sessions)
        return max(1, min(A_FEW, sessions // 5), int(share * sessions))

    def unjudged(self) -> list[str]:
        """Return the rules that could not judge most of what they were asked about, in as many events as sessions."""
        lacking = self.counts.unevaluable
        return [
            spec.id
            for number, spec in enumerate(self.policy.rules)
            if lacking.get(number, 0) >= max(1, len(self.sessions), _UNJUDGED * self._asked(spec))
        ]

    def _asked(self, spec: RuleSpec) -> int:
        """Return how many events a rule was asked about, near enough."""
        handled, tools, events = events_handled(type(spec.rule)), spec.rule.tools(), self.counts.events
        calls = sum(number for tool, number in self.counts.tools.items() if tools is None or tools.matches(tool))
        turns = events[Turn] if "turn" in handled else 0
        return turns + (calls if handled & {"tool_call", "tool_result"} else 0)


def ranked(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return findings by rule: the most severe rules first, and of those the ones that fire in the fewest sessions."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule_id, []).append(finding)
    return sorted(
        by_rule.values(), key=lambda found: (-found[0].severity, len({finding.session_id for finding in found}))
    )


def try_policy(
    events: Iterable[Event], policy: Policy, settings: Settings, places: RecordPlaces | None = None
) -> Trial:
    """Judge the events as ``check`` does; ``places`` knows in which lines they stand."""
    trial = Trial(policy)
    judge = Judge(policy, settings.sessions, counts=trial.counts)
    for event in events:
        trial.sessions.add(event.session_id)
        found: list[Finding] = []
        found += judge.feed(event).findings
        trial.findings += found if places is None else map(places.located, found)
    found = []
    found += judge.end()
    trial.findings += found if places is None else map(places.located, found)
    for finding in trial.findings:
        trial.fired[finding.rule_id].add(finding.session_id)
    return trial
