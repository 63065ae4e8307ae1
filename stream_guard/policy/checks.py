"""Checks of a whole policy: its tool classes, its agents, and the rules that belong to agents."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final

from stream_guard.judge.model import Json
from stream_guard.judge.patterns import STANDARD_CLASSES, ToolPattern
from stream_guard.judge.spec import Agents, PolicyAgent, RuleSpec
from stream_guard.policy.codes import Code
from stream_guard.policy.forms import AgentForm
from stream_guard.policy.message_parts import did_you_mean, listed, show
from stream_guard.policy.report import ProblemReport

MAX_EXPANDED: Final = 10_000
MAX_DEPTH: Final = 16


def check_classes(classes: Mapping[str, Sequence[str]], report: ProblemReport) -> dict[str, Sequence[str]]:
    """Return the classes for the rules. A broken class is reported and left empty; its rules are not reported too."""
    sizes: dict[str, int] = {}
    sound: dict[str, Sequence[str]] = dict.fromkeys(classes, ())
    for name, members in classes.items():
        if not name.isidentifier():
            message = f"{show(name)} is not a usable name; write letters, digits and underscores, without the @"
            report.add(("tool_classes", name), message, Code.TOOLS, on_key=True)
            continue
        wrong = [number for number, _ in enumerate(members) if not _check_member(name, number, classes, sizes, report)]
        if not wrong:
            sound[name] = members
    return sound


def _check_member(
    name: str, number: int, classes: Mapping[str, Sequence[str]], sizes: dict[str, int], report: ProblemReport
) -> bool:
    member = classes[name][number]
    at = ("tool_classes", name, number)
    if not member.startswith("@"):
        try:
            ToolPattern(member.removeprefix("!"))
        except ValueError as error:
            report.add(at, str(error), Code.TOOLS)
            return False
        return True
    if member[1:] in STANDARD_CLASSES and member[1:] in (name, *(STANDARD_CLASSES.keys() - classes.keys())):
        return True
    if member[1:] not in classes:
        near = did_you_mean(member, [f"@{known}" for known in classes if known != name]) or "; it is not declared here"
        report.add(at, f"unknown tool class {show(member)}{near}", Code.TOOLS)
    elif (size := _size(member[1:], classes, sizes, (name,))) is None:
        message = f"tool class {show('@' + name)} contains itself, or classes nest more than {MAX_DEPTH} deep"
        report.add(at, message, Code.TOOLS)
    elif size > MAX_EXPANDED:
        report.add(at, f"tool class {show(member)} stands for more than {MAX_EXPANDED:,} tools", Code.TOO_BIG)
    else:
        return True
    return False


def _size(
    name: str, classes: Mapping[str, Sequence[str]], sizes: dict[str, int], inside: tuple[str, ...]
) -> int | None:
    """Return how many patterns the class stands for; None when it contains itself or nests too deep."""
    if name in STANDARD_CLASSES and (name in inside or name not in classes):
        return len(STANDARD_CLASSES[name])
    if name in inside or len(inside) > MAX_DEPTH:
        return None
    if name not in sizes:
        total = 0
        for member in classes.get(name, ()):
            part = _size(member[1:], classes, sizes, (*inside, name)) if member.startswith("@") else 1
            if part is None:
                return None
            total = min(total + part, MAX_EXPANDED + 1)
        sizes[name] = total
    return sizes[name]


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
