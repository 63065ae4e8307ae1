"""A loaded policy: its rules, each a kind with parameters and what the engine adds, and its version."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

from stream_guard.errors import Place, Problem
from stream_guard.language.conditions import Condition
from stream_guard.model import Action, Json, Scope, Severity
from stream_guard.policy.agents import Agents, PolicyAgent
from stream_guard.policy.changes import ArgumentChange
from stream_guard.rule import Rule

SESSION_KEY: Final = ("session",)
ALL_KEY: Final = "all"  # the part of a key that says: everything together, across sessions
DEFAULT_IDLE: Final = 1800.0
_VERSION_LENGTH: Final = 16  # digits of a policy's version

OnError: TypeAlias = Literal["open", "closed"]
OnUnevaluable: TypeAlias = Literal["stop", "allow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """One rule of a policy: a kind with parameters, and what belongs to the engine."""

    id: str
    slot: str  # the id, made unique where a dialect lets two rules share one; names states and alert ids
    rule: Rule[Any, Any]
    params: Mapping[str, Json] = field(default_factory=dict)  # as written, for digests and reports
    severity: Severity = Severity.ERROR
    severity_word: str = ""  # the word of the original, where a dialect has other ones
    when: Condition | None = None
    unless: Condition | None = None
    scope: Scope = Scope.SESSION
    key: tuple[str, ...] = SESSION_KEY
    agent: str = ""  # the agent that owns it: it applies to that agent and those below; empty: to all
    then: Action | None = None
    changes: tuple[ArgumentChange, ...] = ()  # with `then: modify`, which is a block where a call cannot be changed
    reason: str = ""
    shadow: bool = False
    on_error: OnError = "open"
    on_unevaluable: OnUnevaluable = "stop"
    cooldown: float | None = None
    hold: float | None = None  # written `for`: it must hit without a break for this long
    set_labels: Mapping[str, str] = field(default_factory=dict)  # on the session, when it fires, from the next event on
    tags: tuple[str, ...] = ()
    tests: Sequence[Mapping[str, Json]] = ()
    test_places: Sequence[Place] = ()
    place: Place = Place()

    @property
    def kind(self) -> str:
        """The name of the rule's kind."""
        return self.rule.kind

    @property
    def then_word(self) -> str | None:
        """What the gate does when the rule fires, as it is written."""
        return "modify" if self.changes else None if self.then is None else self.then.word

    @property
    def stops(self) -> bool:
        """Whether an inline gate holds an attempt back when the rule fires."""
        return not self.shadow and self.then is not None and self.then is not Action.ALLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A set of rules that is in force together."""

    rules: tuple[RuleSpec, ...]
    version: str  # a digest of the rules and session settings, independent of the file's form
    name: str = ""
    idle: float = DEFAULT_IDLE  # seconds of event time after which a silent session is over
    max_out_of_orderness: float = 0.0  # seconds an event may be late and still be put in its place
    states_lateness: bool = False  # the file gives ``max_out_of_orderness``; otherwise the format content
    tool_classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    agents: Agents = field(default_factory=Agents)
    masked_arguments: tuple[str, ...] = ()  # names of arguments that reviewers are not shown
    by_tenant: bool = False  # rules across sessions keep apart what is of different tenants; settings say so, not files
    warnings: tuple[Problem, ...] = ()
    file: str = ""

    @property
    def stops(self) -> bool:
        """Whether any rule holds attempts back; a policy that only watches never does."""
        return any(rule.stops for rule in self.rules)

    @property
    def asks(self) -> bool:
        """Whether any rule asks a judge."""
        return any(rule.rule.asks for rule in self.rules)


def version_of(
    rules: Iterable[RuleSpec],
    idle: float,
    max_out_of_orderness: float,
    tool_classes: Mapping[str, Sequence[str]],
    agents: Agents,
    masked_arguments: Sequence[str] = (),
) -> str:
    """Return a digest of everything that affects findings and decisions, and of nothing else.

    So it does not depend on the name, the comments or the order of keys of the file.
    """
    content: dict[str, Json] = {
        "rules": [_rule_content(rule) for rule in rules],
        "idle": idle,
        "max_out_of_orderness": max_out_of_orderness,
        "tool_classes": {name: list(members) for name, members in tool_classes.items()},
    }
    if agents:
        content["agents"] = {name: _agent_content(agent) for name, agent in agents.items()}
    if masked_arguments:
        content["masked_arguments"] = sorted(masked_arguments)
    text = json.dumps(_plain(content), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_VERSION_LENGTH]


def _rule_content(rule: RuleSpec) -> dict[str, Json]:
    return {
        "slot": rule.slot,
        "kind": rule.kind,
        "params": _params(rule),
        "when": rule.when.source if rule.when is not None else None,
        "unless": rule.unless.source if rule.unless is not None else None,
        "scope": rule.scope.stored_word,
        "key": list(rule.key),
        "severity": rule.severity.word,
        "then": rule.then_word,
        "reason": rule.reason,
        "shadow": rule.shadow,
        "on_error": rule.on_error,
        "cooldown": rule.cooldown,
        "for": rule.hold,
        "tags": list(rule.tags),
        **({"modify": [change.source for change in rule.changes]} if rule.changes else {}),
        **({"agent": rule.agent} if rule.agent else {}),
        **({"set_labels": dict(rule.set_labels)} if rule.set_labels else {}),
        **({"on_unevaluable": rule.on_unevaluable} if rule.on_unevaluable != "stop" else {}),
    }


def _agent_content(agent: PolicyAgent) -> dict[str, Json]:
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
