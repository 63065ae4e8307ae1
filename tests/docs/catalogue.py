"""docs/rules.md, made from the registry: what each kind asks for, its parameters, and cases that are run."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

import stream_guard as sg
from stream_guard.judge.rule import ALL_MODES
from stream_guard.policy.convert import write_yaml
from stream_guard.policy.forms import spellings
from stream_guard.policy.gates import events_handled
from stream_guard.registry import Registry
from stream_guard.settings import PluginSettings
from tests.docs.tables import cell, code, table

# The packs of this project: a stranger's pack that happens to be installed has no place on the page.
OUR_PLUGINS = PluginSettings(allow=("axes", "compliance", "dialects", "formats", "rules", "shell", "sinks"))

INTRODUCTION = """\
# Rule kinds

Each section is one kind: what it asks for, what a policy writes under `params`, and cases. The words, the tables and
the cases come from the code, and the cases are run by the tests. What every rule has besides its `params` (`when`,
`unless`, `scope`, `key`, `severity`, `then`, `cooldown`, `for` and the rest) is on the page about
[policies](policy.md). A kind of your own takes about 20 lines: see the [tutorial](tutorial.md).

Traces are written in the short form of `stream_guard.testing`: `call` is an attempt at a tool, `result` what came of
it, `turn` what the model answered (with the tools it `calls`), `user` what a person wrote, `at` the time in seconds.
"""

_WORDS: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    sg.ToolPattern: "tool",
    sg.Path: "path",
    sg.Regex: "regular expression",
    sg.Condition: "condition",
}


def catalogue(registry: Registry) -> str:
    """Return the whole page."""
    rows = [(f"[`{kind}`](#{kind})", cell(_summary(rule))) for kind, rule in registry.kinds.items()]
    sections = [section for rule in registry.kinds.values() for section in _section(rule)]
    return "\n".join([INTRODUCTION, table(("kind", "what it asks"), rows), "", *sections])


def _section(rule: sg.RuleType) -> Iterator[str]:
    yield f"## {rule.kind}\n"
    yield f"{code_marks(inspect.getdoc(rule) or '')}\n"
    yield f"{_facts(rule)}\n"
    fields = rule.params_type.model_fields
    rows = [
        (
            ", ".join(map(code, names)),
            cell(type_words(fields[name])),
            default_words(fields[name]),
            cell(_described(fields[name])),
        )
        for name, names in spellings(rule.params_type).items()
    ]
    yield f"{table(('parameter', 'type', 'default', 'meaning'), rows)}\n"
    for example in rule.examples:
        yield f"*{'Hit' if example.hits else 'No hit'}*: {code_marks(example.claim)}.\n"
        yield f"```yaml\n{_case(example)}```\n"


def code_marks(text: str) -> str:
    """Turn the marks of docstrings into those of Markdown."""
    return text.replace("``", "`")


def _summary(rule: sg.RuleType) -> str:
    return code_marks((inspect.getdoc(rule) or "").split("\n")[0])


def _described(field: FieldInfo) -> str:
    return code_marks(field.description or "")


def _facts(rule: sg.RuleType) -> str:
    # A kind may choose a subclass by its parameters, so that it looks at nothing it does not need.
    handled = frozenset[str]().union(*map(events_handled, [rule, *rule.__subclasses__()]))
    looks = ", ".join(event.replace("_", " ") + "s" for event in sg.EVENT_KINDS if event in handled)
    positions = [at for example in rule.examples for at in example.hits]
    moments = ["at the event"] if any(isinstance(at, int) for at in positions) else []
    moments += ["at a deadline"] if rule.deadline is not sg.Rule.deadline else []
    moments += ["at the end"] if rule.on_session_end is not sg.Rule.on_session_end else []
    stateless = issubclass(rule.state_type, sg.NoState)
    keeps = "no state" if stateless else f"at most {rule.state_limit} bytes of state for each key"
    only = "" if rule.modes == ALL_MODES else f" Modes: {', '.join(sorted(rule.modes))}."
    return f"Looks at {looks}. Speaks {', '.join(moments)}. Keeps {keeps}.{only}"


def type_words(field: FieldInfo) -> str:
    """Say in plain words what may be written for a field."""
    if any(getattr(note, "json_schema", None) for note in field.metadata) and field.annotation is float:
        return "duration"
    return _words(field.annotation)


def _words(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        return "duration" if inner is float and notes else _words(inner)
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(dict.fromkeys(_words(one) for one in get_args(annotation) if one is not NoneType))
    if get_origin(annotation) is Literal:
        return ", ".join(map(code, get_args(annotation)))
    if get_origin(annotation) is list:
        return f"list of {_words(get_args(annotation)[0])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    return _WORDS.get(annotation, "mapping")


def default_words(field: FieldInfo) -> str:
    """Say what holds when nothing is written."""
    if field.is_required():
        return "needed"
    default = field.get_default(call_default_factory=True)
    is_long = field.default_factory is not None and isinstance(default, list | tuple | dict)
    return "" if default is None or is_long else code(default)


def _case(example: sg.Example) -> str:
    params = _plain(example.params)
    short = f"params: {_flow(params)}\n"
    lines = [short if len(short) <= 110 else write_yaml({"params": params}), "trace:\n"]
    for position, item in enumerate(example.trace):
        mark = "  # hit" if position in example.hits else ""
        lines.append(f"  - {_flow(_plain(item))}{mark}\n")
    lines += [f"  # hit {_WHEN[at]}\n" for at in example.hits if isinstance(at, str)]
    return "".join(lines)


_WHEN = {"end": "at the end of the session", "deadline": "when the time is up, however silent the session is"}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return write_yaml([value]).removeprefix("- ").rstrip("\n")
