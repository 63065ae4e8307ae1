"""Write a loaded policy of any dialect as native YAML, with the same version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stream_guard.judge.conditions import Condition
from stream_guard.judge.model import Action, Json, Scope
from stream_guard.judge.spec import DEFAULT_IDLE, SESSION_KEY, Policy, PolicyAgent, RuleSpec
from stream_guard.policy.names import spellings
from stream_guard.policy.yaml_out import write_yaml


def to_yaml(policy: Policy) -> str:
    """Return the policy in the native form. Comments of the original are not in it."""
    return write_yaml(to_native(policy))


def to_native(policy: Policy) -> dict[str, Json]:
    """Return the native form as data, without default values."""
    sessions: dict[str, Json] = {}
    if policy.idle != DEFAULT_IDLE:
        sessions["idle"] = policy.idle
    if policy.max_out_of_orderness:
        sessions["max_out_of_orderness"] = policy.max_out_of_orderness
    written = {
        "name": policy.name,
        "version": 2,
        "sessions": sessions,
        "tool_classes": {name: list(members) for name, members in policy.tool_classes.items()},
        "masked_arguments": list(policy.masked_arguments),
        "agents": {name: _agent(agent) for name, agent in policy.agents.items()},
    }
    return {**_without_defaults(written), "rules": [_rule(rule) for rule in policy.rules]}


def _agent(agent: PolicyAgent) -> dict[str, Json]:
    # An empty list of operations is kept: it means that nothing may be tried.
    operations = {} if agent.operations is None else {"operations": sorted(agent.operations)}
    return {**_without_defaults({"parent": agent.parent, "execution_mode": agent.execution_mode}), **operations}


def _rule(rule: RuleSpec) -> dict[str, Json]:
    closed = rule.then is not None and rule.then is not Action.ALLOW
    optional = {
        "when": _source(rule.when),
        "unless": _source(rule.unless),
        "scope": "" if rule.scope is Scope.SESSION else rule.scope.value,
        "key": "" if rule.key == SESSION_KEY else list(rule.key),
        "agent": rule.agent,
        "severity": rule.severity_word or rule.severity.word,
        "then": rule.then_word,
        "modify": [change.source for change in rule.changes],
        "reason": rule.reason,
        "mode": "shadow" if rule.shadow else "",
        "on_error": "" if rule.on_error == ("closed" if closed else "open") else rule.on_error,
        "on_unevaluable": "" if rule.on_unevaluable == "stop" else rule.on_unevaluable,
        "cooldown": rule.cooldown,
        "for": rule.hold,
        "set_labels": dict(rule.set_labels),
        "tags": list(rule.tags),
        "tests": list(rule.tests),
    }
    # The slot, not the id: in the native form no two rules may share one.
    head: dict[str, Json] = {"id": rule.slot, "kind": rule.kind}
    params = _params(rule)
    return {**head, **({"params": params} if params else {}), **_without_defaults(optional)}


def _params(rule: RuleSpec) -> dict[str, Json]:
    """Return the parameters as written, each under its first name."""
    first = {name: names[0] for names in spellings(rule.rule.params_type).values() for name in names}
    return {first.get(name, name): value for name, value in rule.params.items()}


def _source(condition: Condition | None) -> Json:
    return None if condition is None else condition.source


def _without_defaults(written: Mapping[str, Any]) -> dict[str, Json]:
    return {key: value for key, value in written.items() if value not in (None, "", [], {})}
