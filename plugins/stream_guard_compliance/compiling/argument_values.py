"""Rules about the value of an argument: its bounds, its length, what it has to be, to have, or not to have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import re2

from stream_guard import Json
from stream_guard_compliance.compiling.context import (
    UNKNOWN_ACTION,
    CompileContext,
    CompiledReading,
    Form,
    is_usable,
    names_of,
    one,
)
from stream_guard_compliance.compiling.file_changes import SHELLS
from stream_guard_compliance.reading.catalogue import words_of
from stream_guard_compliance.reading.composed.actions import verb_of
from stream_guard_compliance.reading.values import Reading
from stream_guard_compliance.reading.word_lists import word_set

_LONGEST_COUNT: Final = 1000  # what RE2 repeats
# What tools call the argument that has their text.
_TEXTS: Final = (
    *("text", "message", "body", "content", "msg", "title", "subject", "query", "question", "reason", "result"),
    *("answer", "command", "cmd", "summary", "description", "comment", "report", "input", "sql", "code", "prompt"),
    *("url", "uri", "href", "link", "address"),
)
_LOOKING: Final = word_set("read view search grep find list get fetch glob look lookup query show cat open")


def _no_call(tools: list[str], when: Json, *, certain: bool) -> CompiledReading:
    rule: Form = {"kind": "no_call", "params": {"tool": list[Json](tools)}, "when": when}
    return CompiledReading((rule,), certain=certain)


def _tools(reading: Reading, context: CompileContext) -> list[str]:
    return names_of(reading.first, context) or ["*"]


def argument(reading: Reading, context: CompileContext) -> CompiledReading:
    """An argument that must not be larger or smaller than a number, or must have a value where it is given."""
    name, _, value = reading.items[0].partition("=")
    path = f"tool.args.{name}"
    gates: list[Json] = []
    if reading.over is not None:
        gates.append({"path": path, "op": ">=" if reading.strict else ">", "value": reading.over})
    if reading.least is not None:
        gates.append({"path": path, "op": "<", "value": reading.least})
    if not gates:
        gates.append({"path": path, "op": "not_in", "value": values(value)})
    when: Json = gates[0] if len(gates) == 1 else {"any_of": gates}
    return _no_call(_tools(reading, context), when, certain=bool(reading.first))


def values(text: str) -> list[Json]:
    """Return the values that a word in a prompt stands for: true is the value and the text."""
    known: dict[str, list[Json]] = {"true": [True, "true", "True"], "false": [False, "false", "False"]}
    return known.get(text.lower(), [text, *([int(text)] if text.isdigit() else [])])


def _value(reading: Reading, context: CompileContext) -> CompiledReading:
    """An argument that has one of some values where it is given."""
    name, *texts = reading.items
    wanted = [value for text in texts for value in values(text)]
    gate: Json = {"path": f"tool.args.{name}", "op": "not_in", "value": wanted}
    return _no_call(_tools(reading, context), gate, certain=bool(reading.first))


def _size(reading: Reading, context: CompileContext) -> CompiledReading:
    """A list with no more members than a number."""
    most = int(reading.over or 0) - reading.strict
    gate: Json = {"path": f"tool.args.{reading.items[0]}.{most}", "op": "exists", "value": True}
    return _no_call(_tools(reading, context), gate, certain=bool(reading.first))


def _length(reading: Reading, context: CompileContext) -> CompiledReading:
    """No text of a call longer than so many characters or words."""
    most = int(reading.over or 0) - reading.strict
    if not 0 < most < _LONGEST_COUNT:
        return CompiledReading(why="so long a text is not counted")
    body = rf"(?:\S+\s+){{{most}}}\S" if reading.items == ("words",) else f"(?s)^.{{{most + 1}}}"
    if reading.described:
        gate: Json = {"path": f"tool.args.{reading.described[0]}", "op": "matches", "value": body}
        return _no_call(_tools(reading, context), gate, certain=bool(reading.first))
    return one("forbidden_text", {"pattern": body, "where": "tool_args", "tool": list[Json](_tools(reading, context))})


def _filled(reading: Reading, context: CompileContext) -> CompiledReading:
    """An argument that is not empty."""
    gate: Json = {"path": f"tool.args.{reading.items[0]}", "op": "in", "value": ["", " ", None, []]}
    return _no_call(_tools(reading, context), gate, certain=bool(reading.first))


def _absent(reading: Reading, context: CompileContext) -> CompiledReading:
    """Arguments that are not given, or are empty."""
    gates: list[Json] = [
        {"path": f"tool.args.{name}", "op": "not_in", "value": ["", None, [], False]} for name in reading.items
    ]
    when: Json = gates[0] if len(gates) == 1 else {"any_of": gates}
    return _no_call(_tools(reading, context), when, certain=bool(reading.first))


def _given(reading: Reading, context: CompileContext) -> CompiledReading:
    """Arguments without which the tool must not be called."""
    gates: list[Json] = [
        {"not": {"path": f"tool.args.{name}", "op": "exists", "value": True}} for name in reading.items
    ]
    return _no_call(_tools(reading, context), {"any_of": gates}, certain=True)


def _literal(reading: Reading, context: CompileContext) -> CompiledReading:
    """A text that stands in no argument; tools that only look may look for it."""
    acting = [name for name in context.catalogue.names if is_usable(name) and verb_of(name) not in _LOOKING]
    tools = names_of(reading.first, context) or (acting if context.catalogue.closed else ["*"])
    if not tools:
        return CompiledReading(why=UNKNOWN_ACTION)
    pattern = "|".join(_as_piece(text) for text in reading.items)
    compiled = one("forbidden_text", {"pattern": pattern, "where": "tool_args", "tool": list[Json](tools)})
    return CompiledReading(compiled.rules, certain=False)


def _as_piece(text: str) -> str:
    """Return a pattern for a text that is no part of a longer word."""
    body = r"\s+".join(str(re2.escape(word)) for word in text.split())
    start = r"\b" if text[:1].isalnum() else r"(?:^|[^\w-])" if text[:1] == "-" else ""
    return f"{start}{body}" + (r"(?:$|[^\w-])" if text[-1:].isalnum() else "")


def _words(reading: Reading, context: CompileContext) -> CompiledReading:
    """Words of a command, which only tools that run commands are given."""
    runs = {*SHELLS, "sql", "query", "database", "db"}
    shells = [name for name in context.catalogue.names if is_usable(name) and set(words_of(name)) & runs]
    if not shells:
        return CompiledReading(why=UNKNOWN_ACTION)
    pattern = "|".join(rf"(?i:(?:^|[\s;(]){re2.escape(word)}(?:$|[\s;]))" for word in reading.items)
    compiled = one("forbidden_text", {"pattern": pattern, "where": "tool_args", "tool": list[Json](shells)})
    return CompiledReading(compiled.rules, certain=False)


def _has(reading: Reading, context: CompileContext) -> CompiledReading:
    """An argument that begins with, ends with or has a text; without a name, any text of the call may."""
    names = reading.described or _TEXTS
    bodies = [str(re2.escape(text)) for text in reading.items]
    body = "|".join(bodies)
    pattern = {"start": rf"^\s*(?:{body})", "end": rf"(?:{body})\s*$"}.get(reading.place, f"(?:{body})")
    given: list[Json] = [{"path": f"tool.args.{name}", "op": "exists", "value": True} for name in names]
    right: list[Json] = [{"path": f"tool.args.{name}", "op": "matches", "value": pattern} for name in names]
    when: Json = {"all_of": [{"any_of": given}, {"not": {"any_of": right}}]}
    return _no_call(_tools(reading, context), when, certain=bool(reading.first and reading.described))


def _lacks(reading: Reading, context: CompileContext) -> CompiledReading:
    """An argument that does not begin with, end with or have a text."""
    body = "|".join(str(re2.escape(text)) for text in reading.items)
    pattern = {"start": rf"^\s*(?:{body})", "end": rf"(?:{body})\s*$"}.get(reading.place, f"(?:{body})")
    gate: Json = {"path": f"tool.args.{reading.described[0]}", "op": "matches", "value": pattern}
    return _no_call(_tools(reading, context), gate, certain=bool(reading.first))


def _origin(reading: Reading, context: CompileContext) -> CompiledReading:
    """An argument whose value comes from the results of other tools, or from the user."""
    sources = names_of(reading.second, context)
    allowed: Form = {"tools": list[Json](sources)} if sources else {"user": True}
    tools = list[Json](_tools(reading, context))
    rules: list[Form] = [
        {"kind": "arg_provenance", "params": {"tool": tools, "path": name, "allow": allowed}} for name in reading.items
    ]
    return CompiledReading(tuple(rules), certain=False)


SHAPES: Final[dict[str, Callable[[Reading, CompileContext], CompiledReading]]] = {
    "argument": argument,
    "value": _value,
    "size": _size,
    "length": _length,
    "filled": _filled,
    "absent": _absent,
    "given": _given,
    "literal": _literal,
    "words": _words,
    "has": _has,
    "lacks": _lacks,
    "origin": _origin,
}
