"""The version of a policy: a digest of everything that affects findings and decisions, and of nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final

from stream_guard.model import Json
from stream_guard.policy.agents import Agents, PolicyAgent
from stream_guard.policy.spec import RuleSpec

LENGTH: Final = 16


def version_of(
    rules: Iterable[RuleSpec],
    idle: float,
    max_out_of_orderness: float,
    tool_classes: Mapping[str, Sequence[str]],
    agents: Agents,
) -> str:
    """Return the version. It does not depend on the name, the comments or the order of keys of the file."""
    decides: dict[str, Json] = {
        "rules": [_rule(rule) for rule in rules],
        "idle": idle,
        "max_out_of_orderness": max_out_of_orderness,
        "tool_classes": {name: list(members) for name, members in tool_classes.items()},
    }
    if agents:
        decides["agents"] = {name: _agent(agent) for name, agent in agents.items()}
    text = json.dumps(_plain(decides), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:LENGTH]


def _rule(rule: RuleSpec) -> dict[str, Json]:
    return {
        "slot": rule.slot,
        "kind": rule.kind,
        "params": _params(rule),
        "when": rule.when.source if rule.when is not None else None,
        "unless": rule.unless.source if rule.unless is not None else None,
        "scope": rule.scope.value,
        "key": list(rule.key),
        "severity": rule.severity.word,
        "then": rule.then.word if rule.then is not None else None,
        "reason": rule.reason,
        "shadow": rule.shadow,
        "on_error": rule.on_error,
        "cooldown": rule.cooldown,
        "for": rule.hold,
        "tags": list(rule.tags),
        **({"agent": rule.agent} if rule.agent else {}),
    }


def _agent(agent: PolicyAgent) -> dict[str, Json]:
    operations = None if agent.operations is None else sorted(agent.operations)
    return {"parent": agent.parent, "operations": operations, "execution_mode": agent.execution_mode}


def _params(rule: RuleSpec) -> Json:
    """Return the checked parameters: another spelling, or a default written out, makes no difference."""
    try:
        return rule.rule.params.model_dump(mode="json")
    except Exception:  # noqa: BLE001 - a plugin's type may not support this; then take what was written
        return dict(rule.params)


def _plain(value: Json) -> Json:
    """Return the value with 5.0 as 5: JSON has one sort of number."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
