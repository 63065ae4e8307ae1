"""The tools of a session as its requests declare them, for rules that stop: what executors may make of arguments.

Only the schemas of tools that such rules ask about are kept. They are not stored: every request declares them
again, and until one does, nothing is known of the tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from stream_guard.language.tool_schemas import ToolSchema
from stream_guard.model import Json, ToolCall, Turn

Catalogue: TypeAlias = dict[str, ToolSchema | None]
"""Schemas of arguments by tool; None for a tool that was declared in two ways."""

_MOST_TOOLS: Final = 64
_MOST_BYTES: Final = 16_384  # of one schema
_SCHEMA_NAMES: Final = ("parameters", "input_schema", "inputSchema")


def learn(turn: Turn, known: Catalogue | None, is_asked_about: Callable[[str], bool]) -> Catalogue | None:
    """Return the catalogue of a session after a turn; the one before it stays as it is."""
    tools = turn.request.get("tools") if turn.request is not None else None
    if type(tools) is not list:
        return known
    for name, schema in _declared(tools):
        if not is_asked_about(name):
            continue
        if known is not None and name in known:
            before = known[name]
            if before is not None and before.schema != schema:
                known = {**known, name: None}
        elif known is None or len(known) < _MOST_TOOLS:
            known = {**(known or {}), name: ToolSchema(schema) if _is_small(schema) else None}
    return known


def with_handed(call: ToolCall, known: Catalogue) -> ToolCall:
    """Return a call with the other arguments that its tool may get, where the catalogue knows the tool."""
    schema = known.get(call.tool)
    try:
        handed = schema.hand_over(call.args, "unknown") if schema is not None else None
    except RecursionError:  # of callers in this process: arguments deeper than any that were read
        return call
    return call if handed is None else replace(call, handed=handed.others)


def _declared(tools: list[Json]) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield names and schemas, in the shapes of the common APIs."""
    for tool in tools:
        said = tool.get("function", tool) if type(tool) is dict else None
        name = said.get("name") if type(said) is dict else None
        if type(name) is str and type(said) is dict:
            schema = next((said[key] for key in _SCHEMA_NAMES if type(said.get(key)) is dict), None)
            if schema is not None:
                yield name, schema


def _is_small(schema: Json) -> bool:
    try:
        return len(msgspec.msgpack.encode(schema)) <= _MOST_BYTES
    except (OverflowError, ValueError, TypeError, RecursionError):
        return False
