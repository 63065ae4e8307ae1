"""Judge sessions by candidates as the product would: the rules run in the engine."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding
from stream_guard.judge.spec import Policy
from stream_guard.learning.candidates import RuleCandidate
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry
from stream_guard.settings import SessionLimits


@dataclass(slots=True)
class Fired:
    """In which sessions each rule fired."""

    by_rule: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, findings: Iterable[Finding]) -> None:
        """Count findings."""
        for finding in findings:
            self.by_rule[finding.rule_id].add(finding.session_id)


def as_policy(candidates: Iterable[RuleCandidate], registry: Registry) -> Policy:
    """Return the candidates as a policy."""
    rules = [candidate.as_rule() for candidate in candidates]
    return load_policy(json.dumps({"name": "learned", "version": 2, "rules": rules}), registry, file="learned")


def judge(
    events: Iterable[Event], policies: Sequence[Policy], policy_of: Mapping[str, Sequence[int]], limits: SessionLimits
) -> list[Fired]:
    """Judge each session by the policies whose places are given for it, reading the events once."""
    judges: list[Judge] = [Judge(policy, limits) for policy in policies]
    found: list[list[Finding]] = [[] for _ in policies]
    for event in events:
        for place in policy_of.get(event.session_id, ()):
            found[place] += judges[place].feed(event).findings
    fired = [Fired() for _ in policies]
    for place, judge in enumerate(judges):
        found[place] += judge.end()
        fired[place].add(found[place])
    return fired
