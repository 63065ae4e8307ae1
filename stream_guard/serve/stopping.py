"""Rules that stop attempts: where nobody can judge in time, what they might stop stays shut."""

from __future__ import annotations

from stream_guard.judge.model import Action
from stream_guard.judge.names import ToolNames
from stream_guard.judge.spec import Policy


class StoppingRules:
    """The rules of one policy that stop attempts, and stay shut when they cannot judge."""

    def __init__(self, policy: Policy) -> None:
        self._names = ToolNames(policy)
        self._rules = [
            rule
            for rule in policy.rules
            if rule.then not in (None, Action.ALLOW) and rule.on_error == "closed" and not rule.shadow
        ]

    def may_stop(self, tool: str) -> bool:
        """Whether one of them might speak of the tool, under the name that it is judged by."""
        seen = self._names[tool]
        tool = tool if seen is None else seen.tool
        return any((tools := rule.rule.tools()) is None or tools.matches(tool) for rule in self._rules)
