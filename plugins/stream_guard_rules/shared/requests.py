"""What a request tells an agent: the prompt that it works under, and the tools that it is offered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import stream_guard as sg
from stream_guard_rules.shared.json_values import texts_in


def system_prompt(request: dict[str, sg.Json] | None) -> str:
    """Return the system prompt of a request; empty where it has none."""
    if request is None:
        return ""
    system = request.get("system")
    messages = request.get("messages")
    first = messages[0] if isinstance(messages, list) and messages else None
    if system is None and isinstance(first, dict) and first.get("role") in {"system", "developer"}:
        system = first.get("content")
    return "\n".join(texts_in(system))


LISTING: Final = "tools/list"  # the tool whose result is a list of tools
_SCHEMAS: Final = ("parameters", "input_schema", "inputSchema", "args_schema", "schema")
_Tool = dict[str, sg.Json]


def offered_in(event: sg.Turn | sg.ToolResult) -> sg.Json:
    """Return the list of tools that a request or a server's listing holds, None where there is none."""
    if isinstance(event, sg.Turn):
        return event.request.get("tools") if event.request is not None else None
    if not event.tool.endswith(LISTING):
        return None
    return event.output.get("tools") if isinstance(event.output, dict) else event.output


def definitions(listed: list[sg.Json]) -> Iterator[tuple[str, _Tool]]:
    """Yield the name of each tool and its definition."""
    for item in listed:
        inner = item.get("function") if isinstance(item, dict) else None
        tool = inner if isinstance(inner, dict) else item
        if isinstance(tool, dict) and isinstance(name := tool.get("name"), str):
            yield name, tool


def schema_of(tool: _Tool) -> _Tool | None:
    """Return the JSON Schema of a tool's arguments; None where the definition has none."""
    given = next((tool[name] for name in _SCHEMAS if isinstance(tool.get(name), dict)), None)
    if not isinstance(given, dict):
        return None
    if isinstance(given.get("properties"), dict) or isinstance(given.get("type"), str):
        return given
    # A plain table of arguments: every value describes one.
    return {"type": "object", "properties": given} if all(isinstance(one, dict) for one in given.values()) else None
