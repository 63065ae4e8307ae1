"""Rules in plain words: what a rule asks for, when it applies, and what happens when it fires."""

from __future__ import annotations

import re
from typing import Final

from stream_guard.explaining.states import describe_value
from stream_guard.judge.conditions import GROUPS
from stream_guard.judge.model import Action, Json, Scope
from stream_guard.judge.spec import ALL_KEY, SESSION_KEY, RuleSpec

_PARAM: Final = re.compile(r"``(\w+)``")
_SHOWN: Final = 60
_THEN: Final = {
    Action.ALLOW: "an inline gate lets the attempt through, and it is reported",
    Action.PAUSE: "an inline gate holds the attempt until a person answers",
    Action.BLOCK: "an inline gate blocks the attempt",
    Action.TERMINATE_SESSION: "an inline gate ends the session",
}


def describe_rule(spec: RuleSpec) -> list[str]:
    """Return the rule in a few sentences, the most important first."""
    return [_claim(spec), *_conditions(spec), *_scope(spec), *_consequence(spec)]


def describe_condition(source: Json) -> str:
    """Return a condition as it is written in a policy, as a phrase."""
    if isinstance(source, list):
        return " and ".join(_inner(item) for item in source) or "always"
    group = next((key for key in GROUPS if key in source), None)
    if group is None:
        return _leaf(source)
    inner = source[group]
    if group == "not":
        return f"not ({describe_condition(inner)})"
    items = inner if isinstance(inner, list) else [inner]
    return (" and " if group == "all_of" else " or ").join(_inner(item) for item in items) or "never"


def _inner(source: Json) -> str:
    words = describe_condition(source)
    return f"({words})" if isinstance(source, dict) and "any_of" in source else words


def _leaf(leaf: dict[str, Json]) -> str:
    if leaf["op"] == "exists":
        return f"{leaf['path']} is {'missing' if leaf.get('value') is False else 'there'}"
    return f"{leaf['path']} {leaf['op']} {describe_value(leaf.get('value'), _SHOWN)}"


def _claim(spec: RuleSpec) -> str:
    """Return the first sentence of the kind's description, with the rule's values for its parameters."""
    written = (type(spec.rule).__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
    params, left = dict(_params(spec)), dict(_params(spec))

    def filled(found: re.Match[str]) -> str:
        name = found[1]
        left.pop(name, None)
        return params.get(name, name)

    claim = _PARAM.sub(filled, re.sub(r"\s+", " ", written)) or f"A rule of the kind {spec.kind}."
    others = ", ".join(f"{name} {value}" for name, value in left.items())
    return f"{claim} ({others})" if others else claim


def _params(spec: RuleSpec) -> list[tuple[str, str]]:
    try:
        written = spec.rule.params.model_dump(mode="json", exclude_defaults=True)
    except Exception:  # noqa: BLE001  # a plugin's type may not support this; then take what was written
        written = dict(spec.params)
    return [(name, _plain(value)) for name, value in written.items()]


def _plain(value: Json) -> str:
    if isinstance(value, str):
        return value if len(value) <= _SHOWN and value.isprintable() else describe_value(value, _SHOWN)
    if isinstance(value, list) and all(isinstance(item, str) for item in value) and len(value) <= 6:
        return " or ".join(_plain(item) for item in value)
    return describe_value(value, 2 * _SHOWN)


def _conditions(spec: RuleSpec) -> list[str]:
    said = []
    if spec.when is not None:
        said.append(f"It looks only at events where {describe_condition(spec.when.source)}.")
    if spec.unless is not None:
        said.append(f"Events where {describe_condition(spec.unless.source)} are excepted.")
    if spec.agent:
        said.append(f"It applies to the agent {spec.agent} and agents below it.")
    return said


def _scope(spec: RuleSpec) -> list[str]:
    if spec.key == (ALL_KEY,):
        return ["It keeps one state for everything together, across sessions."]
    if spec.key != SESSION_KEY:
        across = "" if "session" in spec.key else ", across sessions"
        return [f"It keeps one state for each value of {', '.join(spec.key)}{across}."]
    if spec.scope is Scope.PART:
        return ["It starts anew with each thing that the user asks for."]
    return ["It starts anew with each run of an agent."] if spec.scope is Scope.RUN else []


def _changed(spec: RuleSpec) -> str:
    wanted = ", ".join(change.words for change in spec.changes)
    return f"an inline gate changes the arguments ({wanted}) where the caller can do that, and else blocks the attempt"


def _consequence(spec: RuleSpec) -> list[str]:
    said = [f"A hit is of the severity {spec.severity.word}"]
    if spec.then is not None:
        said.append(_changed(spec) if spec.changes else _THEN[spec.then])
    if spec.hold is not None:
        said.append(f"it must hit without a break for {spec.hold:g} s")
    if spec.cooldown is not None:
        said.append(f"further hits within {spec.cooldown:g} s are held back")
    sentences = [f"{'; '.join(said)}."]
    if spec.set_labels:
        labels = ", ".join(f"{name} to {_plain(value)}" for name, value in spec.set_labels.items())
        sentences.append(f"From then on the session has labels: {labels}.")
    if spec.shadow:
        sentences.append("It is in shadow mode: what it finds is recorded and never sent.")
    if spec.reason:
        sentences.append(f"Its reason: {spec.reason}")
    return sentences
