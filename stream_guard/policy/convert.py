"""Write a loaded policy of any dialect as native YAML, with the same version."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from stream_guard.judge.conditions import Condition
from stream_guard.judge.model import Action, Json, Scope
from stream_guard.judge.spec import DEFAULT_IDLE, SESSION_KEY, Policy, PolicyAgent, RuleSpec
from stream_guard.policy.document import is_plain_text
from stream_guard.policy.forms import spellings

WIDTH: Final = 110
_BARE: Final = re.compile(r"[A-Za-z_./$][A-Za-z0-9_./@$*-]*(?: [A-Za-z0-9_./@$*(-][A-Za-z0-9_./@$*()-]*)*")
# Words that YAML 1.1, which other tools may read the file with, takes for booleans.
_OLD_BOOLEANS: Final = frozenset(("yes", "no", "on", "off"))


def write_yaml(data: Json) -> str:
    """Return the YAML of a mapping or list; a short value is written on one line."""
    return "\n".join(_block(data, 0)) + "\n"


def _block(value: Json, indent: int) -> Iterator[str]:
    pad = " " * indent
    if isinstance(value, dict) and value:
        for key, item in value.items():
            name = f"{pad}{_scalar(key)}:"
            yield from _entry(name, item, indent)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _item(item, indent)
    else:
        yield pad + _flow(value)


def _entry(name: str, item: Json, indent: int) -> Iterator[str]:
    if _on_one_line(item, len(name) + 1, is_top=indent == 0):
        yield f"{name} {_flow(item)}"
    else:
        yield name
        yield from _block(item, indent + 2)


def _item(item: Json, indent: int) -> Iterator[str]:
    """Yield the lines of a list item; the first one has the dash."""
    if _on_one_line(item, indent + 2, is_top=indent <= 2 and isinstance(item, dict)):
        yield f"{' ' * indent}- {_flow(item)}"
        return
    first, *rest = _block(item, indent + 2)
    yield f"{' ' * indent}- {first.lstrip(' ')}"
    yield from rest


def _on_one_line(value: Json, column: int, *, is_top: bool) -> bool:
    """Whether the value reads well in one line: short, and not the frame of the file."""
    if not isinstance(value, dict | list) or not value:
        return True
    items = value.values() if isinstance(value, dict) else value
    deep = isinstance(value, list) and any(isinstance(item, dict | list) for item in items)
    return not is_top and not deep and column + len(_flow(value)) <= WIDTH


def _flow(value: Json) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Json) -> str:
    if not isinstance(value, str):
        whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
        return json.dumps(int(value) if whole else value)
    if _BARE.fullmatch(value) and is_plain_text(value) and value.lower() not in _OLD_BOOLEANS:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)


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
