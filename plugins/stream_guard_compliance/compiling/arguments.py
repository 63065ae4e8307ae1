"""Rules about the arguments of calls: texts in them, paths, and how large a number may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import re2

from stream_guard import Json
from stream_guard_compliance.compiling import argument_values
from stream_guard_compliance.compiling.context import (
    UNKNOWN_ACTION,
    CompileContext,
    CompiledReading,
    Form,
    is_usable,
    names_of,
    one,
)
from stream_guard_compliance.compiling.described_tools import over
from stream_guard_compliance.compiling.file_changes import writing_tools
from stream_guard_compliance.compiling.gates import PATHS
from stream_guard_compliance.compiling.patterns import any_of
from stream_guard_compliance.reading.catalogue import words_of
from stream_guard_compliance.reading.commands import is_command, pattern_of
from stream_guard_compliance.reading.symbols import SHELL
from stream_guard_compliance.reading.values import Reading
from stream_guard_compliance.reading.word_lists import word_set

_ABSOLUTE: Final = r"^(?:/|~|[A-Za-z]:[\\/])"
_RELATIVE: Final = r"^(?:\.{1,2}(?:[/\\]|$)|[^/\\~$%{}<>:|]+$|[^/\\~$%{}<>:|]+[/\\][^:]*$)"


def forbid_arg(reading: Reading, context: CompileContext) -> CompiledReading:
    """No call with these texts in its arguments."""
    where: Form = {"where": "tool_args"}
    if reading.first:
        where["tool"] = list[Json](names_of(reading.first, context))
    compile_shape = _SHAPES.get(reading.shape)
    if compile_shape is not None:
        return compile_shape(reading, context)
    if reading.shape == "command":
        compiled = one("forbidden_text", {"pattern": pattern_of(reading.items, reading.described), **where})
        tools = [] if reading.described or reading.first else _called_like(reading.items, context)
        also: tuple[Form, ...] = ({"kind": "no_call", "params": {"tool": list[Json](tools)}},) if tools else ()
        return replace(compiled, rules=(*compiled.rules, *also), certain=not reading.left and not tools)
    compiled = one("forbidden_text", {"pattern": any_of(reading.items), **where})
    # A single word may stand in an argument that is no command.
    certain = all(" " in item.strip() or item in SHELL or is_command(item) for item in reading.items)
    return replace(compiled, certain=certain)


def _called_like(commands: tuple[str, ...], context: CompileContext) -> list[str]:
    """Return the known tools that are called like a command, and do what it does: git_commit."""
    plain = [set(command.split()) - {"git"} for command in commands if "-" not in command]
    return [
        name
        for name in context.catalogue.names
        if is_usable(name) and any(words == set(words_of(name)) - _BESIDE_COMMANDS for words in plain if words)
    ]


_BESIDE_COMMANDS: Final = word_set("git changes code files all")


def _paths(reading: Reading, context: CompileContext) -> CompiledReading:
    """No path of the wrong sort, under any of the names that tools have for such an argument."""
    pattern = _ABSOLUTE if reading.items == ("absolute",) else _RELATIVE
    wrong: list[Json] = [{"path": f"tool.args.{name}", "op": "matches", "value": pattern} for name in PATHS]
    tools = names_of(reading.first, context) or ["*"]
    rule: Form = {"kind": "no_call", "params": {"tool": list[Json](tools)}, "when": {"any_of": wrong}}
    return CompiledReading((rule,), certain=False)


def _folder(reading: Reading, context: CompileContext) -> CompiledReading:
    """No file outside a folder, by the tools that are named, or by those that are called like writing files."""
    tools = names_of(reading.first, context) or writing_tools(context)
    inside = f"^{re2.escape(reading.items[0])}"
    outside: list[Json] = [
        {
            "all_of": [
                {"path": f"tool.args.{name}", "op": "exists", "value": True},
                {"not": {"path": f"tool.args.{name}", "op": "matches", "value": inside}},
            ]
        }
        for name in PATHS
    ]
    if not tools:
        return CompiledReading(why=UNKNOWN_ACTION)
    rule: Form = {"kind": "no_call", "params": {"tool": list[Json](tools)}, "when": {"any_of": outside}}
    return CompiledReading((rule,), certain=False)


def over_amount(reading: Reading, context: CompileContext) -> CompiledReading:
    """No call of these tools over an amount."""
    tools = names_of(reading.items, context)
    rule: Form = {
        "kind": "no_call",
        "params": {"tool": list[Json](tools)},
        "when": over(reading.over or 0.0, reading.described),
    }
    return CompiledReading((rule,), certain=False)


_SHAPES: Final[dict[str, Callable[[Reading, CompileContext], CompiledReading]]] = {
    "path": _paths,
    "folder": _folder,
    **argument_values.SHAPES,
}
