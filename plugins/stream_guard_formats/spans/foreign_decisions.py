"""Decisions of other guards, approvers and evaluators, read from telemetry."""

from __future__ import annotations

from typing import Final, NamedTuple

from stream_guard import Json
from stream_guard_formats.chat.messages import unpack
from stream_guard_formats.conversation import GateAction
from stream_guard_formats.reading import text_at

_WORDS: Final[dict[GateAction, str]] = {
    "allow": "allow allowed accept accepted approve approved pass passed permit "
    "audit warn modify log none simulate flag flagged redact benign safe",
    "block": "deny denied block blocked reject rejected abort intervened refuse "
    "guardrail_intervened quarantine drop fail failed tripped block_and_log",
    "pause": "pause review hold ask pending escalate require_approval defer",
    "terminate_session": "terminate terminate_session kill",
}
_ACTIONS: Final[dict[str, GateAction]] = {word: action for action, words in _WORDS.items() for word in words.split()}
_ACTION_NAMES: Final = (
    "gen_ai.security.decision.type",
    "microsoft.security.decision.type",
    "gen_ai.security.action.type",
    "gen_ai.guardrail.action",
    "gen_ai.guardrails.action",
    "gen_ai.guardrail.decision",
    "gen_ai.security.verdict.type",
    "gen_ai.agent.tool.disposition",
    "agent.threat.detection.action",
    "gen_ai.tool.approval.decision",
    "gen_ai.approval.decision",
    "gen_ai.approval.status",
    "decision",
    "decision_type",
    "metadata.action",
)
_TRIGGERS: Final = ("gen_ai.guardrail.triggered", "guardrail.triggered", "triggered")
DECISION_NAMES: Final = (*_ACTION_NAMES, *_TRIGGERS)  # attributes without which a span has no decision
_RULE_NAMES: Final = (
    "gen_ai.security.policy.rule.id",
    "policy.rule.id",
    "agent.threat.detection.rule_id",
    "gen_ai.security.policy.id",
    "microsoft.security.policy.id",
    "gen_ai.security.policy.name",
    "gen_ai.security.guardrail.name",
    "gen_ai.guardrail.name",
    "gen_ai.guardrails.name",
    "gen_ai.guardian.name",
    "microsoft.guardian.name",
    "gen_ai.evaluation.name",
    "source",
)
_TARGET_IDS: Final = (
    "gen_ai.tool.call.id",
    "tool_use_id",
    "tool_call.id",
    "gen_ai.security.target.id",
    "microsoft.security.target.id",
)
_REASONS: Final = (
    "gen_ai.security.decision.reason",
    "microsoft.security.decision.reason",
    "gen_ai.guardrail.reason",
    "gen_ai.evaluation.explanation",
    "gen_ai.evaluation.score.label",
)
_MAX_TEXT: Final = 200


class ForeignDecision(NamedTuple):
    """The decision of a guard, a person or an evaluator about an attempt or an answer."""

    action: GateAction
    rule_ids: tuple[str, ...] = ()
    call_id: str = ""
    tool: str = ""
    labels: dict[str, str] = {}


def read_decision(attributes: dict[str, Json], span_name: str) -> ForeignDecision | None:
    """Return the decision in the attributes of a span or of a log record, or None where there is none."""
    action = _action_of(attributes)
    if action is None and "gen_ai.evaluation.name" in attributes:
        action = "allow"  # an evaluation comes after the answer: it stops nothing
    if action is None:
        return None
    rules = tuple(
        dict.fromkeys(text_at(attributes, one)[:_MAX_TEXT] for one in _RULE_NAMES if text_at(attributes, one))
    )
    labels = {"reason": text_at(attributes, *_REASONS)[:_MAX_TEXT]} if text_at(attributes, *_REASONS) else {}
    if evaluation := text_at(attributes, "gen_ai.evaluation.name"):
        labels["evaluation"] = evaluation[:_MAX_TEXT]
        for label, name in (("score", "gen_ai.evaluation.score.value"), ("result", "gen_ai.evaluation.score.label")):
            if attributes.get(name) is not None:
                labels[label] = str(attributes[name])[:_MAX_TEXT]
    return ForeignDecision(
        action=action,
        rule_ids=rules or ((span_name[:_MAX_TEXT],) if span_name else ()),
        call_id=text_at(attributes, *_TARGET_IDS),
        tool=text_at(attributes, "gen_ai.tool.name", "tool_name"),
        labels=labels,
    )


def _action_of(attributes: dict[str, Json]) -> GateAction | None:
    for name in _ACTION_NAMES:
        word = attributes.get(name)
        if isinstance(word, str) and (action := _ACTIONS.get(word.lower())) is not None:
            return action
    for name in _TRIGGERS:
        if isinstance(fired := attributes.get(name), bool):
            return "block" if fired else "allow"
    if attributes.get("openinference.span.kind") == "GUARDRAIL":
        output = unpack(attributes.get("output.value"))
        if isinstance(output, str):
            return _ACTIONS.get(output.lower())
        if isinstance(output, dict):
            fired = output.get("triggered", output.get("tripwire_triggered"))
            return None if not isinstance(fired, bool) else "block" if fired else "allow"
    return None
