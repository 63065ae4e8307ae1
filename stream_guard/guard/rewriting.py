"""Rewriting: a call that a rule with ``then: modify`` objects to becomes the call that the rule lets run.

It comes before judging. What is judged, counted, remembered and recorded is the call as it will run, so that a replay
of what was recorded finds what the gate found.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from msgspec.structs import replace as replace_event

from stream_guard.judge.counts import Counts
from stream_guard.judge.json_values import json_equal
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import ToolCall
from stream_guard.judge.objections import HIT
from stream_guard.judge.spec import Policy, change_all


class Rewritten(NamedTuple):
    """A call as it may run, and the rules that made it so; none: it is the call that came."""

    attempt: ToolCall
    rules: tuple[str, ...] = ()


class Rewriter:
    """Rewrites calls under one policy. It remembers nothing.

    A rule is asked about the call by itself, in a session that has just begun. What a rule has against a call because
    of what came before no rewriting mends: judged afterwards, the rule blocks it.
    """

    def __init__(self, policy: Policy) -> None:
        self._rules = tuple(spec for spec in policy.rules if spec.changes and not spec.shadow)
        self._judge = Judge(replace(policy, rules=self._rules), mode="inline") if self._rules else None

    def rewrite(self, attempt: ToolCall) -> Rewritten:
        """Return the call with the changes of every rule that objects to it."""
        if self._judge is None or not isinstance(attempt.args, dict) or attempt.contested:
            return Rewritten(attempt)
        judged = Judge(self._judge, counts=Counts()).feed(attempt)
        hits = sorted({one.rule for one in judged.objections if one.cause == HIT})
        rules = [self._rules[number] for number in hits]
        args = change_all(attempt.args, [change for rule in rules for change in rule.changes])
        if json_equal(args, attempt.args):
            return Rewritten(attempt)
        changed = replace_event(attempt, args=args, handed=None)
        return Rewritten(changed, tuple(rule.id for rule in rules))
