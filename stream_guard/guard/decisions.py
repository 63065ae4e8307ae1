"""From findings to a decision: the strictest action wins, and the decision lists every match."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter
from typing import Final, Literal

from stream_guard.model import Action, Decision, Finding, GateDecision, ToolCall
from stream_guard.policy.spec import Policy

_WORDS: Final[dict[Action, Literal["allow", "pause", "block", "terminate_session"]]] = {
    Action.ALLOW: "allow",
    Action.PAUSE: "pause",
    Action.BLOCK: "block",
    Action.TERMINATE_SESSION: "terminate_session",
}
_LIMIT: Final = "further findings of this rule wait for its cooldown"
_FAILED: Final = "the rule could not judge"


class Decider:
    """Makes decisions under one policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        agents = policy.agents
        self._place = {
            spec.slot: (agents.effective_order(spec.agent), number) for number, spec in enumerate(policy.rules)
        }
        # Most attempts match no rule; they share these answers.
        self._fine = tuple(
            Decision(action=Action.ALLOW, policy_version=policy.version, checked=checked) for checked in (False, True)
        )

    def in_order(self, found: Iterable[Finding]) -> list[Finding]:
        """Return findings in the order of the effective list: the policy's rules, the root's, down to the agent's."""
        return sorted(found, key=lambda finding: self._place.get(finding.slot, (0, 0)))

    def decide(
        self, attempt: ToolCall, found: Sequence[Finding], raised: Collection[int], cooling: Collection[int]
    ) -> Decision:
        """Return the decision on an attempt, from its findings, the rules that raised, and those in their cooldown."""
        agents = self._policy.agents
        checked = not agents or agents.lists(attempt)
        if not found and not raised and not cooling:
            return self._fine[checked]
        rules = self._policy.rules
        if len(found) > 1:
            found = self.in_order(found)
        acted_on = [finding for finding in found if _is_about(attempt, finding)]
        asked = [(finding.then, finding.reason or finding.detail) for finding in acted_on if not finding.shadow]
        # A cooldown keeps alerts back, never the gate open.
        asked += [
            (rules[number].then, rules[number].reason or _LIMIT) for number in cooling if not rules[number].shadow
        ]
        # A gate that cannot judge stays shut where the rule says so (ADR 0007).
        asked += [(rules[number].then, _FAILED) for number in raised if rules[number].on_error == "closed"]
        actions = [(action, reason) for action, reason in asked if action is not None]
        action, reason = max(actions, key=itemgetter(0), default=(Action.ALLOW, ""))
        return Decision(
            action=action,
            findings=tuple(acted_on),
            reason=reason,
            policy_version=self._policy.version,
            checked=checked,
            session_ended=action is Action.TERMINATE_SESSION,
            followup=tuple(finding for finding in found if finding not in acted_on)
            if len(acted_on) < len(found)
            else (),
        )


def _is_about(attempt: ToolCall, finding: Finding) -> bool:
    """Whether a finding is about this attempt: not a follow-up, and no deadline that passed just before it."""
    if finding.followup:
        return False
    return finding.attempt == attempt.attempt or finding.kind == "rule_error"


def decision_event(attempt: ToolCall, action: Action, rule_ids: list[str]) -> GateDecision:
    """Return the event of a decision; the same decision on the same attempt has the same id."""
    return GateDecision(
        session_id=attempt.session_id,
        event_id=f"{attempt.event_id}/{action.word}" if attempt.event_id else "",
        time=attempt.time,
        run_id=attempt.run_id,
        agent=attempt.agent,
        agent_path=attempt.agent_path,
        labels=attempt.labels,
        action=_WORDS[action],
        call_id=attempt.call_id,
        tool=attempt.tool,
        rule_ids=tuple(dict.fromkeys(rule_ids)),
    )
