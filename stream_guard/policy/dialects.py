"""Find the dialect of a policy file, and translate the file into the native form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from stream_guard.errors import PolicyError, Problem
from stream_guard.judge.model import Json
from stream_guard.policy.codes import Code
from stream_guard.policy.gates import Steps
from stream_guard.policy.message_parts import listed, show
from stream_guard.policy.nodes import PolicyDocument
from stream_guard.policy.scope_words import scope_words, with_todays_words
from stream_guard.ports import Dialect
from stream_guard.registry import Registry

# Keys that a dialect may add to a translated rule or agent; in a policy file they are unknown keys.
_ORIGIN: Final = "_from"
_SLOT: Final = "_slot"
_FLAT: Final = "_flat"


@dataclass(frozen=True, slots=True)
class NativePolicy:
    """A policy in the native form, not yet checked, and where its rules and agents stand in the file."""

    form: Json
    problems: Sequence[Problem] = ()
    origins: Mapping[int, Steps] = field(default_factory=dict)  # by rule: where it stands in the file
    slots: Mapping[int, str] = field(default_factory=dict)  # by rule: its slot, where rules share an id
    flat: Set[int] = frozenset()  # rules whose parameters stand beside their id, not under a key of their own
    agent_origins: Mapping[str, Steps] = field(default_factory=dict)  # by agent: where it stands in the file

    def source(self, path: Steps) -> Steps:
        """Return the path in the file for a path in the native form."""
        match path:
            case ("rules", int(number), *rest) if number in self.origins:
                below = rest[1:] if number in self.flat and rest[:1] == ["params"] else rest
                return (*self.origins[number], *below)
            case ("agents", str(name), *rest) if name in self.agent_origins:
                return (*self.agent_origins[name], *rest)
            case _:
                return path


def to_native(document: PolicyDocument, registry: Registry) -> NativePolicy:
    """Translate the file with the dialect that recognises it; without one, take it for the native form."""
    claims = {name: dialect() for name, dialect in registry.dialects.items()}
    claims = {name: dialect for name, dialect in claims.items() if _recognises(name, dialect, document)}
    if len(claims) > 1:
        message = f"the file could be read as {listed(claims, 'or')}; block one of these dialects with plugins.block"
        raise PolicyError([*document.problems, Problem(document.place(), message, Code.NOT_A_POLICY)])
    for name, dialect in claims.items():
        return _translate(name, dialect, document)
    if isinstance(document.data, dict) and "apiVersion" in document.data:
        return _unknown_version(document, registry)
    return _with_todays_scopes(document)


def _with_todays_scopes(document: PolicyDocument) -> NativePolicy:
    """Take the file for the native form, and say of scopes in older words what they are called."""
    form = document.data
    rules = form.get("rules") if isinstance(form, dict) else None
    if not isinstance(rules, list):
        return NativePolicy(form)
    version = form.get("version")
    problems = [
        Problem(
            document.place("rules", word.rule, "scope"), word.warning, Code.OLD_WORD, _id_of(rules[word.rule]), True
        )
        for word in scope_words(rules, version)
    ]
    return NativePolicy({**form, "rules": with_todays_words(rules, version)}, problems)


def _id_of(rule: Json) -> str:
    rule_id = rule.get("id")
    return rule_id if isinstance(rule_id, str) else ""


def _recognises(name: str, dialect: Dialect, document: PolicyDocument) -> bool:
    try:
        return dialect.recognises(document)
    except Exception as error:
        raise _failed(name, document, error) from error


def _translate(name: str, dialect: Dialect, document: PolicyDocument) -> NativePolicy:
    try:
        form, problems = dialect.translate(document)
    except Exception as error:
        raise _failed(name, document, error) from error
    rules, agents = form.get("rules"), form.get("agents")
    agent_origins: dict[str, Steps] = {}
    if isinstance(agents, dict):
        agent_origins = {name: tuple(agent[_ORIGIN]) for name, agent in agents.items() if _ORIGIN in agent}
        form = {**form, "agents": {name: _without_origin_keys(agent) for name, agent in agents.items()}}
    if not isinstance(rules, list):
        return NativePolicy(form, problems, agent_origins=agent_origins)
    numbered = [(number, rule) for number, rule in enumerate(rules) if isinstance(rule, dict)]
    return NativePolicy(
        {**form, "rules": [_without_origin_keys(rule) for rule in rules]},
        problems,
        {number: tuple(rule[_ORIGIN]) for number, rule in numbered if _ORIGIN in rule},
        {number: str(rule[_SLOT]) for number, rule in numbered if _SLOT in rule},
        {number for number, rule in numbered if rule.get(_FLAT)},
        agent_origins,
    )


def _without_origin_keys(rule: Json) -> Json:
    if not isinstance(rule, dict):
        return rule
    return {key: value for key, value in rule.items() if key not in (_ORIGIN, _SLOT, _FLAT)}


def _unknown_version(document: PolicyDocument, registry: Registry) -> NativePolicy:
    readable = f"; dialects that can be read: {', '.join(registry.dialects)}" if registry.dialects else ""
    message = f"unknown apiVersion {show(document.data['apiVersion'])}{readable}; the native form has none"
    form = {key: value for key, value in document.data.items() if key != "apiVersion"}
    return NativePolicy(form, [Problem(document.place("apiVersion"), message, Code.NOT_A_POLICY)])


def _failed(name: str, document: PolicyDocument, error: Exception) -> PolicyError:
    what = f"{type(error).__name__}: {show(str(error))}"
    message = f"dialect {name} failed on this file: {what}; report it to its author, or block it with plugins.block"
    return PolicyError([*document.problems, Problem(document.place(), message, Code.KIND_FAILED)])
