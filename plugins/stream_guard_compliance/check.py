"""``check_compliance``: the rules of a system prompt, held against what the agent did."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from stream_guard import (
    Counts,
    FeatureNotEnabledError,
    Finding,
    Registry,
    Settings,
    Turn,
    build_registry,
    evaluate,
    load_settings,
    parse_policy,
    redact,
    redact_text,
)
from stream_guard_compliance.extraction import ExtractedRule, Extraction, extract
from stream_guard_compliance.judging import Judgement, ask_judge, transcript
from stream_guard_compliance.proposals import Proposal
from stream_guard_compliance.proposing import ask_reader
from stream_guard_compliance.reading.catalogue import ToolDeclaration, declarations
from stream_guard_compliance.results import (
    ComplianceResult,
    NotEvaluated,
    RuleVerdict,
    Violation,
)
from stream_guard_compliance.trace import Trace, event_index, read_trace

FLAG: Final = "PISAMA_ENABLE_CHECK_COMPLIANCE"
_TRUE: Final = frozenset(("1", "true", "yes"))
_LOOKS_AT_RESPONSES: Final = frozenset(("forbid_output", "require_output"))
_UNSURE: Final = 0.7  # where a rule guesses which tools or texts its sentence means


@dataclass(slots=True)
class _Outcomes:
    """The results of the rules and of the judge so far."""

    violations: list[Violation] = field(default_factory=list)
    verdicts: list[RuleVerdict] = field(default_factory=list)
    not_evaluated: list[NotEvaluated] = field(default_factory=list)
    tokens: int = 0
    cost: float = 0.0


async def check_compliance(
    system_prompt: str,
    trace_events: Iterable[Any],
    *,
    timeout: float = 60.0,  # noqa: ASYNC109  # the parameter of the API that this one follows
    tools: Iterable[ToolDeclaration] = (),
    proposals: Iterable[Proposal] = (),
    settings: Settings | None = None,
    registry: Registry | None = None,
) -> ComplianceResult:
    """Return which rules of the prompt the trace breaks, keeps, and leaves open.

    Rules come from the system prompt alone. Without a judge (settings ``judge``) nothing leaves the process,
    and what only a judge could tell is inconclusive. ``timeout`` is for all questions together, in seconds.
    ``proposals`` are readings that somebody wrote down for open sentences; the verifier decides about each.
    Raises FeatureNotEnabledError where ``compliance.require_flag`` is set and the flag is not.
    """
    settings = settings or load_settings()
    if settings.compliance.require_flag and os.environ.get(FLAG, "").strip().lower() not in _TRUE:
        raise FeatureNotEnabledError(f"check_compliance is switched off: compliance.require_flag asks for {FLAG}=1")
    registry = registry or build_registry(settings.plugins)
    trace = read_trace(trace_events)
    outcomes = _Outcomes(not_evaluated=list(trace.unreadable))
    deadline = time.monotonic() + timeout
    context = _PromptReading(system_prompt, [*tools, *trace.declared], trace, tuple(proposals))
    extraction = await _extract(context, settings, outcomes, timeout)
    _run_rules(extraction, trace, registry, outcomes)
    open_rules = [rule for rule in extraction.rules if not rule.compiled.rules]
    text, was_cut = transcript(trace.events, settings.judge.max_characters)
    asked = [rule.rule for rule in open_rules] if trace.events else []
    judgements = await ask_judge(asked, text, registry, settings.judge, max(0.0, deadline - time.monotonic()))
    for rule, judgement in zip(open_rules, judgements or [Judgement(None, _EMPTY)] * len(open_rules), strict=True):
        _add_judgement(rule, judgement, was_cut, outcomes)
    outcomes.not_evaluated += [
        NotEvaluated(what=f"sentence: {redact_text(left.sentence)}", reason=left.reason) for left in extraction.unparsed
    ]
    return _result(extraction, outcomes)


@dataclass(frozen=True, slots=True)
class _PromptReading:
    """What a prompt is read with."""

    prompt: str
    tools: list[ToolDeclaration]
    trace: Trace
    proposals: tuple[Proposal, ...] = ()

    def extract(self, proposals: Iterable[Proposal] = ()) -> Extraction:
        trace, known = self.trace, (*self.proposals, *proposals)
        return extract(self.prompt, self.tools, seen=trace.tools, proposals=known, has_results=trace.has_results)


async def _extract(reading: _PromptReading, settings: Settings, outcomes: _Outcomes, seconds: float) -> Extraction:
    """Return the rules of the prompt; with ``compliance.propose``, a model is asked about what is left open."""
    found = reading.extract()
    if not settings.compliance.propose:
        return found
    open_sentences = [rule.rule.description for rule in found.rules if not rule.compiled.rules]
    names = list(declarations(reading.tools)) or reading.trace.tools
    proposed = await ask_reader(open_sentences, names, settings.judge, seconds)
    outcomes.tokens += proposed.tokens
    outcomes.cost += proposed.cost_usd
    if proposed.why:
        outcomes.not_evaluated.append(NotEvaluated(what="readings of a model", reason=proposed.why))
    return reading.extract(proposed.proposals)


_EMPTY: Final = "the trace has no event that could be read"


def _result(extraction: Extraction, outcomes: _Outcomes) -> ComplianceResult:
    places = {rule.rule.rule_id: number for number, rule in enumerate(extraction.rules)}
    return ComplianceResult(
        detected=bool(outcomes.violations),
        confidence=max((violation.confidence for violation in outcomes.violations), default=0.0),
        violations=outcomes.violations,
        extracted_rules=[rule.rule for rule in extraction.rules],
        tokens_used=outcomes.tokens,
        cost_usd=outcomes.cost,
        verdicts=sorted(outcomes.verdicts, key=lambda verdict: places[verdict.rule_id]),
        unparsed=list(extraction.unparsed),
        not_evaluated=outcomes.not_evaluated,
    )


def _run_rules(extraction: Extraction, trace: Trace, registry: Registry, outcomes: _Outcomes) -> None:
    """Load the compiled rules as a policy, run the engine, and add what each rule found."""
    form = extraction.policy()
    if not form["rules"]:
        return
    policy = parse_policy(json.dumps(form), registry, file="the extracted policy")
    counts = Counts()
    found: dict[str, list[Finding]] = {}
    for finding in evaluate(trace.events, policy, counts=counts):
        if finding.kind != "rule_error":
            found.setdefault(finding.rule_id, []).append(finding)
    positions = {rule.id: number for number, rule in enumerate(policy.rules)}
    for rule in extraction.rules:
        if not rule.compiled.rules:
            continue
        findings = [finding for rule_id in rule.judging for finding in found.get(rule_id, ())]
        unjudged = any(_failed(counts, positions[rule_id]) for rule_id in rule.ids)
        outcomes.verdicts.append(_verdict(rule, findings, unjudged, trace))
        # A limit is broken once: by the first call over it.
        kept = findings[:1] if rule.rule.kind == "limit" else findings
        outcomes.violations += [_violation(rule, finding) for finding in kept]


def _failed(counts: Counts, position: int) -> bool:
    return bool(counts.unevaluable.get(position) or counts.rule_errors.get(position))


def _verdict(rule: ExtractedRule, findings: Sequence[Finding], unjudged: bool, trace: Trace) -> RuleVerdict:
    rule_id = rule.rule.rule_id
    if findings:
        return RuleVerdict(rule_id=rule_id, verdict="violated", reason=redact_text(findings[0].detail))
    why = _why_open(rule, unjudged, trace)
    if why:
        return RuleVerdict(rule_id=rule_id, verdict="inconclusive", reason=why)
    return RuleVerdict(rule_id=rule_id, verdict="satisfied", reason="the trace does nothing against it")


def _why_open(rule: ExtractedRule, unjudged: bool, trace: Trace) -> str:
    """Return why a rule without findings is not satisfied either, or nothing."""
    if not trace.events:
        return _EMPTY
    if trace.unreadable:
        return f"{len(trace.unreadable)} events could not be read"
    if unjudged:
        return "the trace leaves out what the rule needs"
    if rule.rule.kind in _LOOKS_AT_RESPONSES and not any(isinstance(event, Turn) for event in trace.events):
        return "the trace has no response of the agent"
    per_agent = any(_asks_agent(form) for form in rule.compiled.rules)
    return "no event says which agent acts" if per_agent and not any(event.agent for event in trace.events) else ""


def _asks_agent(form: Mapping[str, Any]) -> bool:
    gate = form.get("when")
    return isinstance(gate, dict) and gate.get("path") == "agent"


def _violation(rule: ExtractedRule, finding: Finding) -> Violation:
    at_end = finding.at == "end"
    evidence = json.dumps(redact(finding.evidence), ensure_ascii=False, sort_keys=True)
    return Violation(
        rule_id=rule.rule.rule_id,
        evidence=f"{redact_text(finding.detail)} {evidence}" if finding.evidence else redact_text(finding.detail),
        explanation=f"{redact_text(finding.detail)}, but the prompt says: {redact_text(rule.rule.description)}",
        confidence=1.0 if rule.compiled.certain else _UNSURE,
        event_index=None if at_end else event_index(finding.event_id),
        kind=rule.rule.kind,
        severity=rule.rule.severity,
    )


def _add_judgement(rule: ExtractedRule, judgement: Judgement, was_cut: bool, outcomes: _Outcomes) -> None:
    """Add the answer of the judge; without a clear answer the rule stays open."""
    rule_id, answer = rule.rule.rule_id, judgement.answer
    if answer is not None:
        outcomes.tokens += answer.tokens
        outcomes.cost += answer.cost_usd
    if answer is None or answer.violated is None:
        reason = f"{rule.compiled.why}; {judgement.why}"
        outcomes.verdicts.append(RuleVerdict(rule_id=rule_id, verdict="inconclusive", reason=reason, by="nobody"))
        outcomes.not_evaluated.append(NotEvaluated(what=f"rule {rule_id}", reason=reason))
    elif answer.violated:
        explanation = redact_text(answer.explanation) or "the judge found it broken"
        outcomes.verdicts.append(RuleVerdict(rule_id=rule_id, verdict="violated", reason=explanation, by="judge"))
        outcomes.violations.append(
            Violation(
                rule_id=rule_id,
                evidence=explanation,
                explanation=f"a judge found broken: {redact_text(rule.rule.description)}",
                confidence=answer.confidence,
                kind=rule.rule.kind,
                severity=rule.rule.severity,
            )
        )
    elif was_cut:
        reason = "the judge saw no violation, but only the beginning of the trace"
        outcomes.verdicts.append(RuleVerdict(rule_id=rule_id, verdict="inconclusive", reason=reason, by="judge"))
        outcomes.not_evaluated.append(NotEvaluated(what=f"rule {rule_id}", reason=reason))
    else:
        reason = redact_text(answer.explanation) or "the judge found it kept"
        outcomes.verdicts.append(RuleVerdict(rule_id=rule_id, verdict="satisfied", reason=reason, by="judge"))
