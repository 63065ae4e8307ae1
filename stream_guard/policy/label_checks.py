"""Checks of the labels that rules set: who may set one, and whether a rule that waits for one can ever fire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final, TypeAlias

from stream_guard.judge.conditions import Condition, Leaf
from stream_guard.judge.model import SessionEnd
from stream_guard.judge.spec import RuleSpec
from stream_guard.policy.codes import Code
from stream_guard.policy.message_parts import listed, show
from stream_guard.policy.report import ProblemReport

Setters: TypeAlias = Mapping[str, list[RuleSpec]]
"""The rules that set a label, by its name."""

_EVENT: Final = SessionEnd(session_id="")


def check_labels(rules: Mapping[int, RuleSpec], report: ProblemReport) -> None:
    """Report labels that cannot be set or used as a key, and rules that wait for labels that nobody sets first."""
    setters: dict[str, list[RuleSpec]] = {}
    for spec in rules.values():
        for name in spec.set_labels:
            setters.setdefault(name, []).append(spec)
    if not setters:
        return
    values = _reachable(list(rules.values()), setters)
    for number, spec in rules.items():
        if spec.set_labels and "session" not in spec.key:
            message = (
                'labels are set on a session, and the key leaves "session" out; add it, or let another rule set them'
            )
            report.add(("rules", number, "set_labels"), message, Code.KEY, rule_id=spec.id)
        for place, part in enumerate(spec.key):
            if part.removeprefix("labels.") in setters and part.startswith("labels."):
                message = f"{show(part)} is set by rules, and most events are without it; ask for it in `when` instead"
                report.add(("rules", number, "key", place), message, Code.KEY, rule_id=spec.id)
        if not _can_open(spec.when, values, setters):
            message = _explain(spec, values, setters)
            report.add(("rules", number, "when"), message, Code.NEVER_FIRES, rule_id=spec.id)


def _reachable(rules: Sequence[RuleSpec], setters: Setters) -> dict[str, set[str]]:
    """Return the values that each label can get, from rules whose own gates can open."""
    values: dict[str, set[str]] = {name: set() for name in setters}
    waiting = [spec for spec in rules if spec.set_labels]
    while ready := [spec for spec in waiting if _can_open(spec.when, values, setters)]:
        waiting = [spec for spec in waiting if spec not in ready]
        for spec in ready:
            for name, value in spec.set_labels.items():
                values[name].add(value)
    return values


def _can_open(condition: Condition | None, values: Mapping[str, Set[str]], setters: Setters) -> bool:
    def is_open(leaf: Leaf) -> bool:
        return _label(leaf, setters) == "" or len(_answers(leaf, values)) > 1

    return condition is None or condition.judge(_EVENT, frozenset(), is_open) is not False


def _answers(leaf: Leaf, values: Mapping[str, Set[str]]) -> set[bool]:
    """Return what a leaf about a label can be: without the label, and with each value that it can get."""
    name = leaf.path.steps[0]
    events = [_EVENT, *(SessionEnd(session_id="", labels={name: value}) for value in values[name])]
    return {leaf.test(event, frozenset()) for event in events}


def _label(leaf: Leaf, setters: Setters) -> str:
    """Return the label that a leaf is about, if rules set it."""
    root, _, name = leaf.path.text.partition(".")
    return name if root == "labels" and name in setters else ""


def _explain(spec: RuleSpec, values: Mapping[str, Set[str]], setters: Setters) -> str:
    names = dict.fromkeys(name for leaf in spec.when.leaves if (name := _label(leaf, setters))) if spec.when else {}
    reasons = []
    for name in names:
        others = listed(setter.id for setter in setters[name])
        known = f"to {listed(sorted(values[name]))}" if values[name] else "only after it has been set"
        reasons.append(f"labels.{name} is set by {others}, {known}")
    return f'"when" is never true: {"; ".join(reasons)}'
