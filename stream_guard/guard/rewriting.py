"""Rewriting: a call that a rule with ``then: modify`` objects to becomes the call that the rule lets run.

It comes before judging. What is judged, counted, remembered and recorded is the call as it will run, so that a replay
of what was recorded finds what the gate found.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from msgspec.structs import replace as replace_event

from stream_guard.judge.counts import Counts
from stream_guard.judge.json_values import json_equal
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import HIT, Json, ToolCall
from stream_guard.judge.patterns import Regex, see_through
from stream_guard.judge.spec import ArgumentChange, Policy

MASK: Final = "[masked]"


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
        args = attempt.args
        for change in [change for rule in rules for change in rule.changes]:
            args = apply_change(change, args)
        if json_equal(args, attempt.args):
            return Rewritten(attempt)
        changed = replace_event(attempt, args=args, handed=None)
        return Rewritten(changed, tuple(rule.id for rule in rules))


class _Dropped:
    """Stands for a value that is taken out."""


_DROPPED: Final = _Dropped()


def apply_change(change: ArgumentChange, args: Json) -> Json:
    """Return arguments with a change; what came in stays as it is."""
    return _changed_at(args, tuple(change.path.split(".")) if change.path else (), change)


def _changed_at(value: Json, steps: tuple[str, ...], change: ArgumentChange) -> Json:
    """Return the value with what stands at the steps changed; where nothing stands there, as it is."""
    if not steps:
        return _changed(value, change)
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict) and (step in value or (change.word == "set" and not rest)):
        changed = _changed_at(value.get(step), rest, change)
        if changed is _DROPPED:
            return {key: item for key, item in value.items() if key != step}
        return {**value, step: changed}
    if isinstance(value, list) and step.isascii() and step.isdigit() and int(step) < len(value):
        number = int(step)
        changed = _changed_at(value[number], rest, change)
        kept = () if changed is _DROPPED else (changed,)
        return [*value[:number], *kept, *value[number + 1 :]]
    return value


def _changed(value: Json, change: ArgumentChange) -> Json:
    if change.word == "set":
        return change.value
    if change.word == "drop":
        return _DROPPED
    if change.word == "cap":
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return min(value, change.value) if is_number else value
    return _masked(value, change.pattern)


def _masked(value: Json, pattern: Regex | None) -> Json:
    if isinstance(value, str):
        return MASK if pattern is None else _without(value, pattern)
    if isinstance(value, dict):
        return {key: _masked(item, pattern) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, pattern) for item in value]
    return MASK if pattern is None else value


def _without(text: str, pattern: Regex) -> str:
    """Return the text with every match masked; where only a reader sees one, all of it as the reader sees it."""
    masked = pattern.replace(text, MASK)
    if masked == text and (seen := see_through(text)) is not text and pattern.occurs_in(seen):
        return pattern.replace(seen, MASK)
    return masked
