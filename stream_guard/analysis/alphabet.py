"""A small alphabet of events for a rule: its tools and texts, with arguments and labels that open its gate.

Events are in the shorthand that tests beside rules use. What a rule's condition cannot be asked by inverting an
operator, such as an elaborate regular expression, stays out: then fewer traces are tried, and none is made up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from stream_guard.judge.conditions import GROUPS
from stream_guard.judge.model import Json
from stream_guard.judge.patterns import Regex, ToolPattern
from stream_guard.judge.spec import RuleSpec
from stream_guard.policy.gates import events_handled

Item: TypeAlias = dict[str, Any]
"""One event in the shorthand."""

_MOST_TOOLS: Final = 4
_MOST_WORDS: Final = 4
_LONGEST: Final = 200
_OTHER: Final = "something_else"


def alphabet(spec: RuleSpec) -> list[Item]:
    """Return events that may matter to a rule, those that open its gate first."""
    settings = [_setting(spec, holds=True), {}, _setting(spec, holds=False)] if spec.when is not None else [{}]
    unique = {repr(item): item for setting in settings for item in _events(spec, setting)}
    return list(unique.values())


def _events(spec: RuleSpec, setting: Item) -> Iterator[Item]:
    handled = events_handled(type(spec.rule))
    header: Item = {key: setting[key] for key in ("labels", "agent", "run") if key in setting}
    turn: Item = {key: setting[key] for key in ("request", "response") if key in setting}
    tools = [setting["tool"]] if "tool" in setting else [*_tools_of(spec)[:_MOST_TOOLS], _OTHER]
    if handled & {"tool_call", "tool_result", "decision"}:
        for tool in tools:
            yield {"call": tool, "args": setting.get("args", {}), **header}
            if "tool_result" in handled:
                for status in ("ok", "error"):
                    yield {"result": tool, "status": status, **setting.get("result", {}), **header}
    if "turn" in handled or turn:
        yield from _turns(spec, tools if "turn" in handled else [], {**turn, **header})
    if "user_message" in handled or "user" in setting:
        for text in (setting.get("user", "please"), *_words_of(spec)):
            yield {"user": text, **header}


def _turns(spec: RuleSpec, tools: Sequence[str], given: Item) -> Iterator[Item]:
    yield {"turn": "so", **given}
    yield from ({"turn": None, "calls": [tool], **given} for tool in tools)
    for word in _words_of(spec):
        yield {"turn": word, **given}
        if "response" not in given:
            yield {"turn": "so", "stop": word, **given}


def _tools_of(spec: RuleSpec) -> list[str]:
    """Return a name for each tool that the rule speaks of."""
    found = dict.fromkeys(sample for pattern in patterns_in(spec.rule.params) for sample in _samples(pattern))
    tools = spec.rule.tools()
    for name in sorted(tools.exact or ()) if tools is not None else ():
        found[name] = None
    return list(found)


def patterns_in(value: object) -> Iterator[ToolPattern]:
    """Yield every pattern of tools in a rule's parameters."""
    if isinstance(value, ToolPattern):
        yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from patterns_in(getattr(value, name, None))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from patterns_in(item)


def _samples(pattern: ToolPattern) -> Iterator[str]:
    """Yield names that a pattern matches."""
    for part in pattern.expanded:
        for name in part.removeprefix("~").split("|"):
            sample = re.sub(r"\[!?(.)[^\]]*\]", r"\1", name).replace("*", "x").replace("?", "x")
            if pattern.matches(sample):
                yield sample


def _words_of(spec: RuleSpec) -> list[str]:
    """Return texts that the parameters speak of: what they say, what follows a colon, what a pattern matches."""
    words: dict[str, None] = {}
    for text in _strings(dict(spec.params)):
        for pattern in (part.regex for part in spec.rule.texts()):
            if sample := text_for(pattern):
                words[sample] = None
        for piece in (text, *re.findall(r':("[^"]*"|[^\s()!&|]+)', text)):
            words[piece.strip('"')[:_LONGEST]] = None
    return list(words)[:_MOST_WORDS]


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def text_for(pattern: str) -> str:
    """Return a text that a simple pattern matches, or nothing."""
    plain = re.sub(r"\(\?[a-zA-Z:]+\)?|[\^$()]|\\[bBAzZ]", "", pattern).split("|")[0]
    plain = re.sub(r"\\d[+*]?", "1", re.sub(r"\\w[+*]?", "a", re.sub(r"\\s[+*]?", " ", plain)))
    plain = re.sub(r"\[([^\]^-])[^\]]*\][+*]?", r"\1", plain).replace(".*", "").replace(".+", "a")
    candidate = re.sub(r"\\(.)", r"\1", plain)
    try:
        return candidate if candidate and Regex(pattern).search(candidate) is not None else ""
    except ValueError:
        return ""


def _setting(spec: RuleSpec, *, holds: bool) -> Item:
    """Return what events must have so that the rule's gate is open, or so that it just is not."""
    setting: Item = {}
    for leaf in _chosen_leaves(spec.when.source if spec.when is not None else []):
        value = _value_for(leaf, holds=holds)
        if value is not None:
            _put(setting, str(leaf["path"]), value)
    return setting


def _chosen_leaves(source: Json) -> Iterator[dict[str, Json]]:
    """Yield leaves that together make a condition true; of alternatives the first."""
    if isinstance(source, list):
        for item in source:
            yield from _chosen_leaves(item)
        return
    group = next((key for key in GROUPS if key in source), None)
    if group is None:
        yield source
    elif group == "all_of":
        yield from _chosen_leaves(source[group])
    elif group == "any_of":
        inner = source[group]
        yield from _chosen_leaves(inner[0] if isinstance(inner, list) and inner else inner)


def _value_for(leaf: dict[str, Json], *, holds: bool) -> Json:
    """Return a value for which the leaf holds, or does not; None where none is known."""
    op, value = str(leaf["op"]), leaf.get("value")
    if op in {"!=", "not_in", "not_contains"}:
        op, holds = {"!=": "==", "not_in": "in", "not_contains": "contains"}[op], not holds
    if op in {"==", "contains"}:
        return deepcopy(value) if holds else _another(value)
    if op == "in" and isinstance(value, list) and value:
        return deepcopy(value[0]) if holds else _another(value[0])
    if op in {">", ">=", "<", "<="} and isinstance(value, int | float):
        step = 1 if op[0] == ">" else -1
        return value + (step if holds else -step)
    if op == "matches":
        return text_for(str(value)) or None if holds else "-"
    return "1" if op == "exists" and value is not False and holds else None


def _another(value: Json) -> Json:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else "another value"


def _put(setting: Item, path: str, value: Json) -> None:
    """Put a value where an event has it for the path."""
    root, *steps = path.split(".")
    if path == "tool.name":
        setting["tool"] = value
    elif path in {"model", "stop_reason"}:
        setting.setdefault("request" if path == "model" else "response", {})[path] = value
    elif path == "agent":
        setting["agent"] = value
    elif path == "run_id":
        setting["run"] = value
    elif path == "user.text":
        setting["user"] = value
    elif root == "labels":
        setting.setdefault("labels", {})[steps[0]] = value if isinstance(value, str) else str(value)
    elif root == "tool" and steps[0] == "args":
        _nest(setting.setdefault("args", {}), steps[1:], value)
    elif root == "tool" and steps[0] == "result" and len(steps) > 1:
        _nest(setting.setdefault("result", {}), steps[1:], value)
    elif root in {"request", "response"}:
        _nest(setting.setdefault(root, {}), steps, value)


def _nest(holder: dict[str, Json], steps: Sequence[str], value: Json) -> None:
    for step in steps[:-1]:
        inner = holder.setdefault(step, {})
        if not isinstance(inner, dict):
            return
        holder = inner
    if steps:
        holder[steps[-1]] = value
