"""Rulings: decisions as they are to be carried out, and what the audit keeps of them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stream_guard.guard.reviews import Review
from stream_guard.history.canonical import digest_of
from stream_guard.model import Action, Alert, Json, RuleCoverage, ToolCall
from stream_guard.redaction import mask_id, mask_secrets


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one attempt, as it is to be carried out."""

    action: Action
    reason: str = ""
    policy_version: str = ""
    alerts: tuple[Alert, ...] = ()
    review: Review | None = None
    checked: bool = True  # False: the tool is not on its agent's list, or the policy does not know the agent
    rules: RuleCoverage = RuleCoverage()
    advice: str = ""  # what the strictest rule found, and what would satisfy it
    args: Json = None  # of modify: the arguments to run with
    modified_by: tuple[str, ...] = ()  # the rules that changed the arguments

    @property
    def judged(self) -> bool:
        """Whether every rule that applies could judge the attempt."""
        return self.checked and not self.rules.unevaluable

    def __str__(self) -> str:
        return f"{self.action.word}: {self.reason}" if self.reason else self.action.word


class Rewriting(NamedTuple):
    """The rules that changed a call, and the digest of the arguments that it came with."""

    rules: tuple[str, ...]
    asked_digest: str


def decision_record(
    attempt: ToolCall, ruling: Ruling, rules: tuple[str, ...], rewriting: Rewriting | None = None
) -> dict[str, object]:
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
        "rule_ids": list(rules),
        "policy_version": ruling.policy_version,
        "review": ruling.review.id if ruling.review is not None else "",
    }
    if rewriting is None:
        return record
    word = Action.MODIFY.word if ruling.action is Action.ALLOW else ruling.action.word
    changed = {"action": word, "modified_by": list(rewriting.rules), "asked_digest": rewriting.asked_digest}
    return record | changed
