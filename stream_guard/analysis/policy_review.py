"""A policy looked at as a whole: rules that are odd beside each other, and rules that are dead on some recordings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from stream_guard.analysis.breaking import BreakingTraces, ReadTrace
from stream_guard.analysis.never_saw import never_saw
from stream_guard.analysis.rule_pairs import MOST_RULES, Relation, remarks
from stream_guard.errors import Problem
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.policy.gates import always_holds, denies_itself
from stream_guard.policy.message_parts import Code, printable

_CODES: Final[Mapping[Relation, Code]] = {
    "same": Code.SAME,
    "covered": Code.COVERED,
    "contradicts": Code.CONTRADICTION,
    "never": Code.CONSTANT,
    "always": Code.CONSTANT,
}
_MOST_SESSIONS: Final = 100_000  # in which findings are compared


def odd_rules(policy: Policy, read: ReadTrace, breaks: BreakingTraces | None = None) -> list[Problem]:
    """Return a warning for each rule that does what another does, contradicts another, or is decided beforehand.

    ``breaks`` keeps the traces that break them for others who ask.
    """
    told = remarks(policy, read, breaks or BreakingTraces(policy, read))
    found = [_warning(remark.rule, _CODES[remark.relation], remark.text) for remark in told]
    found += [
        _warning(spec, Code.CONSTANT, '"when" is always true; leave it out')
        for spec in policy.rules
        if spec.when is not None and spec.when.source and always_holds(spec.when)
    ]
    found += [
        _warning(spec, Code.CONSTANT, '"when" asks for something and for its opposite, so it is never true')
        for spec in policy.rules
        if spec.when is not None and denies_itself(spec.when)
    ]
    return found


def too_many_to_compare(policy: Policy) -> str:
    """Return what to say of a policy with so many rules that only equal ones were looked for."""
    count = len(policy.rules)
    return (
        f"{policy.file}: {count} rules are too many to compare them by traces; split it" if count > MOST_RULES else ""
    )


@dataclass(slots=True)
class TraceReview:
    """What recordings say about the rules of a policy."""

    policy: Policy
    sessions: set[str] = field(default_factory=set)
    fired: dict[str, Counter[str]] = field(default_factory=dict)  # by rule's slot: findings by session
    counts: Counts = field(default_factory=Counts)

    def judge(self, events: Iterable[Event]) -> None:
        """Judge the recordings by the policy."""
        judge = Judge(self.policy, counts=self.counts)
        found: list[Finding] = []
        for event in events:
            if len(self.sessions) < _MOST_SESSIONS:
                self.sessions.add(event.session_id)
            found += judge.feed(event).findings
        found += judge.end()
        for finding in found:
            self.fired.setdefault(finding.slot, Counter())[finding.session_id] += 1

    def problems(self) -> Iterator[Problem]:
        """Yield a warning for each rule that is dead in the recordings, or fires in every session."""
        rules = {spec.id: spec for spec in self.policy.rules}
        for missing in never_saw(self.policy, self.counts):
            text = str(missing).removeprefix(f"{missing.rule_id} ")
            yield _warning(rules[missing.rule_id], Code.DEAD, f"is dead in these traces: it {text}")
        for spec in self.policy.rules:
            if len(self.sessions) > 1 and self.hits(spec)[1] == len(self.sessions):
                yield _warning(spec, Code.CONSTANT, f"fires in every one of {len(self.sessions):,} sessions")

    def hits(self, spec: RuleSpec) -> tuple[int, int]:
        """Return how many findings the rule has in the recordings, and in how many sessions."""
        fired: Counter[str] = self.fired.get(spec.slot, Counter())
        return fired.total(), len(fired)


def _warning(spec: RuleSpec, code: Code, text: str) -> Problem:
    return Problem(spec.place, printable(text), code.value, spec.id, warning=True)
