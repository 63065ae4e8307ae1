"""What is wrong with the agents of a policy, and with the rules that belong to them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from stream_guard.model import Json
from stream_guard.policy.agents import Agents, PolicyAgent
from stream_guard.policy.codes import Code
from stream_guard.policy.forms import AgentForm
from stream_guard.policy.report import ProblemReport
from stream_guard.policy.spec import RuleSpec
from stream_guard.policy.wording import did_you_mean, listed, show


def check_agents(forms: Mapping[str, AgentForm], rules: Sequence[Json], report: ProblemReport) -> Agents:
    """Return the agents; report parents and rules that cannot be, and reviews that nobody could give."""
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
    """Warn of tools that a rule waits for and none of its agents may try; ``foreign`` rules their dialect judges."""
    for number, spec in enumerate(rules):
        wanted, listed_tools = spec.rule.tools(), agents.tools_below(spec.agent) if spec.agent else None
        if number in foreign or wanted is None or wanted.exact is None or listed_tools is None:
            continue
        for tool in sorted(wanted.exact - listed_tools):
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
