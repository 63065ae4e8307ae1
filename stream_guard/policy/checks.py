"""Checks of a whole policy: its agents, the rules that belong to them, and the labels that its rules set."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence, Set
from typing import Final, TypeAlias

from stream_guard.judge.conditions import Condition, Leaf
from stream_guard.judge.model import Json, SessionEnd
from stream_guard.judge.spec import Agents, PolicyAgent, RuleSpec
from stream_guard.policy.forms import AgentForm
from stream_guard.policy.message_parts import Code, did_you_mean, listed, show
from stream_guard.policy.native import ProblemReport


def check_agents(forms: Mapping[str, AgentForm], rules: Sequence[Json], report: ProblemReport) -> Agents:
    """Return the agents. Report wrong parents, rules of unknown agents, and pauses that nobody could review."""
    agents = Agents({name: _agent(form) for name, form in forms.items()})
    for name, form in forms.items():
        if form.parent is None:
            continue
        if form.parent not in forms:
            message = f"agent {show(name)}: no agent is called {show(form.parent)}{_advice(form.parent, forms)}"
            report.add(("agents", name, "parent"), message, Code.AGENT)
        elif forms[agents.lineage(name)[0]].parent in forms:
            message = f"agent {show(name)}: its parents lead back to it; one agent must be the root, without a parent"
            report.add(("agents", name, "parent"), message, Code.AGENT)
    for number, rule in enumerate(rules):
        if isinstance(rule, dict):
            _check_rule(number, rule, forms, report)
    return agents


def warn_of_unlisted(rules: Sequence[RuleSpec], agents: Agents, foreign: Container[int], report: ProblemReport) -> None:
    """Warn of tools that a rule waits for and none of its agents may try, except for ``foreign`` rules."""
    for number, spec in enumerate(rules):
        tools, listed_tools = spec.rule.tools(), agents.tools_below(spec.agent) if spec.agent else None
        if number in foreign or tools is None or tools.exact is None or listed_tools is None:
            continue
        for tool in sorted(tools.exact - listed_tools):
            message = f"no agent that this rule governs may try {show(tool)}: it is on no operations list"
            report.add(("rules", number), message, Code.NOT_LISTED, rule_id=spec.id, warning=True)


def _agent(form: AgentForm) -> PolicyAgent:
    operations = None if form.operations is None else frozenset(form.operations)
    return PolicyAgent(parent=form.parent or "", operations=operations, execution_mode=form.execution_mode)


def _check_rule(number: int, rule: dict[str, Json], forms: Mapping[str, AgentForm], report: ProblemReport) -> None:
    owner = rule.get("agent")
    if not isinstance(owner, str):
        return
    rule_id = str(rule.get("id") or f"rule-{number}")
    if owner not in forms:
        message = f"no agent is called {show(owner)}{_advice(owner, forms)}"
        report.add(("rules", number, "agent"), message, Code.AGENT, rule_id=rule_id)
    elif rule.get("then") == "pause" and forms[owner].execution_mode == "request":
        message = (
            f'"then": pause waits for a review, and agent {show(owner)} runs in request mode, where nobody gives one; '
            "use block, or execution_mode hitl or sub_agent"
        )
        report.add(("rules", number, "then"), message, Code.AGENT, rule_id=rule_id)


def _advice(name: str, forms: Mapping[str, AgentForm]) -> str:
    known = f"; declared under agents: {listed(forms)}" if forms else "; declare it under agents"
    return did_you_mean(name, forms) or known


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
