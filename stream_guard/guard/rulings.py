"""Rulings: decisions as they are to be carried out, and what the audit keeps of them."""

from __future__ import annotations

from typing import NamedTuple

from stream_guard.guard.reviews import Review
from stream_guard.history.records import digest_of
from stream_guard.judge.model import Action, Alert, Decision, ToolCall
from stream_guard.redaction import mask_id, mask_secrets


class Ruling(Decision, frozen=True, kw_only=True):
    """A decision as the gate carries it out: with alerts in place of findings, and the review that it hangs on."""

    alerts: tuple[Alert, ...] = ()
    review: Review | None = None


class Rewriting(NamedTuple):
    """The rules that changed a call, and the digest of the arguments that it came with."""

    rules: tuple[str, ...]
    asked_digest: str


def decision_record(attempt: ToolCall, ruling: Ruling, rewriting: Rewriting | None = None) -> dict[str, object]:
    """Return what the audit keeps of a decision: every rule that matched, and a digest of the arguments.

    Names that a caller chose may hold secrets, and evidence is shown to others. The session's is what it is found by.
    Of a call that was changed, the digest is that of the arguments that run, beside that of those that came.
    """
    record: dict[str, object] = {
        "session_id": attempt.session_id,
        "event_id": mask_id(attempt.event_id),
        "call_id": mask_id(attempt.call_id),
        "tool": mask_secrets(attempt.tool),
        "agent": mask_secrets(attempt.agent),
        "arguments_digest": digest_of(attempt.args),
        "action": ruling.action.word,
        "reason": ruling.reason,
        "rule_ids": list(ruling.rule_ids),
        "policy_version": ruling.policy_version,
        "review": ruling.review.id if ruling.review is not None else "",
    }
    if rewriting is None:
        return record
    word = Action.MODIFY.word if ruling.action is Action.ALLOW else ruling.action.word
    changed = {"action": word, "modified_by": list(rewriting.rules), "asked_digest": rewriting.asked_digest}
    return record | changed
