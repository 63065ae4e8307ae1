"""Which rules an attempt is judged by, before anything is known of its arguments."""

from __future__ import annotations

from typing import Final

from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Action, Decision, RuleCoverage, ToolCall

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
