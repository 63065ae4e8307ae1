"""The system prompt and the tools that a turn's request carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stream_guard import Json, Turn

if TYPE_CHECKING:
    from stream_guard_compliance.reading.catalogue import ToolDeclaration


def prompt_of(turn: Turn) -> str:
    """Return the system prompt that a turn's request carries, or nothing."""
    request = turn.request or {}
    for name in ("system", "instructions", "system_instructions"):
        text = _text(request.get(name))
        if text:
            return text
    messages = request.get("messages")
    said = [
        _text(message.get("content"))
        for message in (messages if isinstance(messages, list) else [])
        if isinstance(message, dict) and message.get("role") in {"system", "developer"}
    ]
    return "\n".join(text for text in said if text)


def _text(value: Json) -> str:
    """Return the text of a message: a string, or blocks that have text or content in them."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return _text(value.get("text") or value.get("content") or value.get("parts"))
    if isinstance(value, list):
        return "\n".join(text for text in map(_text, value) if text)
    return ""


def declared_tools(turn: Turn) -> list[ToolDeclaration]:
    """Return the tools that a turn's request declares, as they are declared."""
    tools = (turn.request or {}).get("tools")
    return [tool for tool in (tools if isinstance(tools, list) else []) if isinstance(tool, str | dict)]
