"""From objections to a decision: the strictest action wins, and the decision lists every match.

Which rules an attempt is judged by is known before anything is known of its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, Literal

from stream_guard.judge.content import NO_ANSWER
from stream_guard.judge.findings import is_answered
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import (
    ASKED,
    CONTESTED,
    FAILED,
    HELD,
    HIT,
    UNEVALUABLE,
    Action,
    Decision,
    Finding,
    GateDecision,
    Objection,
    RuleCoverage,
    ToolCall,
)
from stream_guard.judge.spec import RuleSpec
from stream_guard.redaction import redact_text

_KNOWN: Final = 4096  # answers kept; agents choose the names of tools and agents


class Coverage:
    """The answer to an attempt that no rule objects to: allow, with the rules that were asked.

    A rule is asked when its kind looks at calls of the tool and its agent is the attempt's or above it. Its ``when``
    is part of what it is asked.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._answers: dict[str, dict[str, Decision]] = {}  # by agent and tool
        self._known = 0

    def of(self, attempt: ToolCall) -> Decision:
        """Return the answer; most attempts share one with others of their tool and agent."""
        if attempt.agent_path:
            return self._answer(attempt)
        of_agent = self._answers.get(attempt.agent)  # two lookups take less than a key of two names
        known = of_agent.get(attempt.tool) if of_agent is not None else None
        return known if known is not None else self._keep(attempt)

    def _keep(self, attempt: ToolCall) -> Decision:
        if self._known >= _KNOWN:
            self._answers.clear()
            self._known = 0
        self._known += 1
        answer = self._answers.setdefault(attempt.agent, {})[attempt.tool] = self._answer(attempt)
        return answer

    def _answer(self, attempt: ToolCall) -> Decision:
        judge = self._judge
        policy = judge.policy
        attempt = judge.under_its_name(attempt)
        asked = judge.asked_about(attempt)
        ids = [spec.id for spec in policy.rules]
        return Decision(
            action=Action.ALLOW,
            policy_version=policy.version,
            checked=not policy.agents or policy.agents.lists(attempt),
            rules=RuleCoverage(
                checked=tuple(name for number, name in enumerate(ids) if number in asked),
                not_applicable=tuple(name for number, name in enumerate(ids) if number not in asked),
            ),
        )


_WORDS: Final[dict[Action, Literal["allow", "pause", "block", "terminate_session"]]] = {
    Action.ALLOW: "allow",
    Action.PAUSE: "pause",
    Action.BLOCK: "block",
    Action.TERMINATE_SESSION: "terminate_session",
    Action.MODIFY: "allow",  # the event before it is the call as it runs
}
_MOST_REASON: Final = 400  # characters
_LIMIT: Final = "further findings of this rule wait for its cooldown"
_WRITE_PLAINLY: Final = "to pass: arguments as one JSON object, each key once"
_FAILED: Final = "the rule could not judge"


class Decider:
    """Makes decisions under the policy of a judge."""

    def __init__(self, judge: Judge) -> None:
        self._policy = policy = judge.policy
        self._answers = judge.answers
        self._coverage = Coverage(judge)
        agents = policy.agents
        self._place = {
            spec.slot: (agents.effective_order(spec.agent), number) for number, spec in enumerate(policy.rules)
        }

    def in_order(self, found: Iterable[Finding]) -> list[Finding]:
        """Return findings in the order of the effective list: the policy's rules, the root's, down to the agent's."""
        return sorted(found, key=lambda finding: self._place.get(finding.slot, (0, 0)))

    def decide(self, attempt: ToolCall, found: Sequence[Finding], objections: Sequence[Objection]) -> Decision:
        """Return the decision on an attempt, from what rules have against it; findings are listed with it."""
        plain = self._coverage.of(attempt)
        if not found and not objections:
            return plain
        if len(found) > 1:
            found = self.in_order(found)
        acted_on = [finding for finding in found if is_about(attempt, finding)]
        open_questions = tuple(
            one.text for one in objections if one.cause == ASKED and not is_answered(self._answers.find(one.text))
        )
        objections = [answered for one in objections if (answered := self._answered(one)) is not None]
        asked = [wanted for objection in objections if (wanted := self._wanted(objection)) is not None]
        action, reason, advice = max(asked, key=itemgetter(0), default=(Action.ALLOW, "", ""))
        return Decision(
            action=action,
            findings=tuple(acted_on),
            reason=reason,
            policy_version=self._policy.version,
            checked=plain.checked,
            session_ended=action is Action.TERMINATE_SESSION,
            followup=tuple(finding for finding in found if finding not in acted_on)
            if len(acted_on) < len(found)
            else (),
            rule_ids=self._rule_ids(acted_on, objections),
            rules=self._rules(plain.rules, objections),
            advice=advice,
            asked=open_questions,
        )

    def fails_open(self, objections: Sequence[Objection]) -> bool:
        """Whether a rule raised: an attempt that goes through all the same is counted."""
        return any(objection.cause == FAILED for objection in objections)

    def _answered(self, objection: Objection) -> Objection | None:
        """Return what is left of an objection now that a judge has answered, or has not yet.

        Asked anew at every question: the answer may have come since the attempt was judged.
        """
        if objection.cause != ASKED:
            return objection
        answer = self._answers.find(objection.text)
        if answer is None or answer.violated is None:
            return Objection(objection.rule, UNEVALUABLE, NO_ANSWER)
        why = redact_text(answer.explanation)
        return Objection(objection.rule, HIT, f"a judge says no: {why}") if answer.violated else None

    def _wanted(self, objection: Objection) -> tuple[Action, str, str] | None:
        """Return the action that an objection asks for, the reason, and advice; None when it asks for none."""
        if objection.cause == CONTESTED:
            reason = f"what it asks for is not certain: {objection.text}"
            return (Action.BLOCK, reason, _WRITE_PLAINLY) if self._policy.stops else None
        spec = self._policy.rules[objection.rule]
        if spec.shadow or spec.then is None:
            return None
        if objection.cause == UNEVALUABLE:
            return _unevaluable(spec, objection.text)
        if objection.cause == FAILED:
            # A gate that cannot judge stays shut where the rule says so (ADR 0007).
            return (spec.then, _FAILED, "") if spec.on_error == "closed" else None
        # Agents, reviewers and the audit get it: no secret may be in it.
        found = redact_text(objection.text)[:_MOST_REASON]
        if spec.changes:
            passing = _passing(spec, found)
            return spec.then, spec.reason or passing, passing
        # A cooldown keeps alerts back, never the gate open.
        return spec.then, spec.reason or (_LIMIT if objection.cause == HELD else found), found

    def _rule_ids(self, found: Iterable[Finding], objections: Iterable[Objection]) -> tuple[str, ...]:
        objecting = (self._policy.rules[one.rule].id for one in objections if one.cause != CONTESTED)
        return tuple(dict.fromkeys([*(finding.rule_id for finding in found), *objecting]))

    def _rules(self, asked: RuleCoverage, objections: Sequence[Objection]) -> RuleCoverage:
        unsure = {self._policy.rules[one.rule].id for one in objections if one.cause == UNEVALUABLE}
        if not unsure:
            return asked
        return RuleCoverage(
            checked=tuple(name for name in asked.checked if name not in unsure),
            unevaluable=tuple(sorted(unsure)),
            not_applicable=tuple(name for name in asked.not_applicable if name not in unsure),
        )


def _unevaluable(spec: RuleSpec, lacks: str) -> tuple[Action, str, str] | None:
    """Return what a rule asks for that could not judge: it stops the attempt, but never ends a session on a doubt."""
    if spec.then is None or spec.then is Action.ALLOW or spec.on_unevaluable == "allow":
        return None
    return min(spec.then, Action.BLOCK), f"rule {spec.id} could not judge without {lacks}", f"to pass: {lacks}"


def _passing(spec: RuleSpec, found: str) -> str:
    """Return what a rule found, and what it would have made of the call, for an agent to do it."""
    return f"{found.partition('; to pass: ')[0]}; to pass: {', '.join(change.words for change in spec.changes)}"


def is_about(attempt: ToolCall, finding: Finding) -> bool:
    """Whether a finding is about this attempt: not a follow-up, and no deadline that passed just before it."""
    if finding.followup or finding.session_id != attempt.session_id:
        return False
    return finding.attempt == attempt.attempt or finding.kind == "rule_error"


def decision_event(attempt: ToolCall, action: Action, rule_ids: Iterable[str]) -> GateDecision:
    """Return the event of a decision; the same decision on the same attempt has the same id."""
    return GateDecision(
        session_id=attempt.session_id,
        event_id=f"{attempt.event_id}/{action.word}" if attempt.event_id else "",
        time=attempt.time,
        run_id=attempt.run_id,
        agent=attempt.agent,
        agent_path=attempt.agent_path,
        counts_as=attempt.counts_as,
        labels=attempt.labels,
        action=_WORDS[action],
        call_id=attempt.call_id,
        tool=attempt.tool,
        rule_ids=tuple(dict.fromkeys(rule_ids)),
    )
