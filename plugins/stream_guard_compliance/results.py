"""The result of a compliance check: violations, the verdict on each rule, and what was not evaluated."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from stream_guard_compliance.reading.values import SeverityWord

Outcome: TypeAlias = Literal["violated", "satisfied", "inconclusive"]
Checkable: TypeAlias = Literal["full", "partial", "none"]


class BehavioralRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that a sentence of the prompt states."""

    rule_id: str
    description: str  # the sentence
    trigger: str  # when it holds
    required_action: str | None = None
    forbidden_action: str | None = None
    severity: SeverityWord = "medium"
    kind: str = "ambiguous"
    items: tuple[str, ...] = ()
    checkable: Checkable = "none"
    offset: int = 0  # of the sentence in the prompt
    end: int = 0  # behind its last character


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One place where a rule was broken."""

    rule_id: str
    evidence: str
    explanation: str
    confidence: float
    event_index: int | None = None  # in trace_events; None where the end of the trace decided
    kind: str = ""
    severity: SeverityWord = "medium"


class LiveViolation(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that a session broke, of the prompt that its own turns carry."""

    session_id: str
    event_id: str
    rule_id: str
    kind: str
    severity: SeverityWord
    explanation: str
    prompt_version: str  # the beginning of the digest of the prompt and the tools declared beside it


class RuleVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one rule, and who gave it."""

    rule_id: str
    verdict: Outcome
    reason: str
    by: Literal["rules", "judge", "nobody"] = "rules"


class Unparsed(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence that may be a rule and could not be read as one."""

    sentence: str
    offset: int
    reason: str
    end: int = 0  # of the sentence in the prompt


class NotEvaluated(msgspec.Struct, frozen=True, kw_only=True):
    """Something the result does not rest on, and why: a rule, a sentence or an event."""

    what: str
    reason: str


class ComplianceResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of ``check_compliance``; the first six fields are those of Pisama's API."""

    detected: bool
    confidence: float
    violations: list[Violation]
    extracted_rules: list[BehavioralRule]
    tokens_used: int = 0
    cost_usd: float = 0.0
    verdicts: list[RuleVerdict] = []
    unparsed: list[Unparsed] = []
    not_evaluated: list[NotEvaluated] = []

    @property
    def demanded(self) -> int:
        """How many sentences of the prompt demand something, those that could not be read included."""
        return len({rule.offset for rule in self.extracted_rules} | {left.offset for left in self.unparsed})

    @property
    def covered(self) -> set[int]:
        """Where the sentences stand of which something was checked."""
        checked = {verdict.rule_id for verdict in self.checked}
        return {rule.offset for rule in self.extracted_rules if rule.rule_id in checked}

    @property
    def checked(self) -> list[RuleVerdict]:
        """The verdicts that rules or a judge gave; an open one is none."""
        return [verdict for verdict in self.verdicts if verdict.verdict != "inconclusive"]

    @property
    def score(self) -> float | None:
        """The share that was kept of what was checked; None where nothing was. Say ``demanded`` beside it."""
        kept = sum(verdict.verdict == "satisfied" for verdict in self.checked)
        return kept / len(self.checked) if self.checked else None

    @property
    def verdict(self) -> Outcome:
        """Satisfied only when every rule was judged and none was broken; without any rule, inconclusive."""
        if self.detected:
            return "violated"
        judged = [verdict.verdict == "satisfied" for verdict in self.verdicts]
        whole = judged and all(judged) and not self.unparsed and not self.not_evaluated
        return "satisfied" if whole else "inconclusive"
