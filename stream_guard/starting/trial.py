"""Try a policy on recordings: which rules fire in how many sessions, and which could not judge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from stream_guard.model import Event, Finding
from stream_guard.observability.counts import Counts
from stream_guard.pipeline import open_table
from stream_guard.policy.spec import Policy
from stream_guard.settings import Settings

NOISE: Final = 0.02  # the share of sessions in which a rule may fire and still be enforced from the first day
A_FEW: Final = 3  # sessions that are looked at, whatever their share, unless they are a fifth of all


@dataclass(slots=True)
class Trial:
    """What a policy found."""

    policy: Policy
    sessions: set[str] = field(default_factory=set)
    fired: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # sessions, by rule
    findings: list[Finding] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)

    def noisy(self) -> list[str]:
        """Return the enforced rules that fire in more sessions than a person would look at on the first day."""
        sessions = len(self.sessions)
        most = max(1, min(A_FEW, sessions // 5), int(NOISE * sessions))
        enforced = [spec.id for spec in self.policy.rules if not spec.shadow]
        return [rule for rule in enforced if len(self.fired.get(rule, ())) > most]

    def unjudged(self) -> list[str]:
        """Return the rules that these recordings lack something for: in every session, or in some for a shadow rule."""
        return [
            spec.id
            for number, spec in enumerate(self.policy.rules)
            if (lacking := self.counts.unevaluable.get(number, 0)) and (spec.shadow or lacking >= len(self.sessions))
        ]


def try_policy(events: Iterable[Event], policy: Policy, settings: Settings) -> Trial:
    """Judge the events as ``check`` does."""
    trial = Trial(policy)
    table = open_table(policy, trial.counts, settings.sessions)
    for event in events:
        trial.sessions.add(event.session_id)
        table.feed(event, trial.findings)
    table.end_all(trial.findings)
    for finding in trial.findings:
        trial.fired[finding.rule_id].add(finding.session_id)
    return trial
