"""The style of a list of messages: whose way of writing calls and results it has."""

from __future__ import annotations

from typing import Literal

from stream_guard import Json
from stream_guard_formats.reading import object_at

MessageStyle = Literal["", "anthropic", "langchain", "openai", "plain"]


def message_style(data: Json) -> MessageStyle:
    """Return the style of the messages in a record. They are ``plain`` where all styles look the same.

    The style is empty for a record without messages, and for a list of records.
    """
    is_plain = False
    for message in _messages_in(data):
        if not isinstance(message, dict) or ("role" not in message and "messages" in message):
            return ""
        if message.get("lc") == 1 or message.get("type") in ("human", "ai", "AIMessageChunk"):
            return "langchain"
        if message.get("role") == "tool" or message.get("tool_calls"):
            return "openai"
        content = message.get("content")
        if isinstance(content, list) and any(_is_anthropic(block) for block in content):
            return "anthropic"
        is_plain = is_plain or isinstance(message.get("role"), str)
    return "plain" if is_plain else ""


def _messages_in(data: Json) -> list[Json]:
    """Return the messages of a record: the record itself, or a list at one of the usual places."""
    if isinstance(data, list):
        return data
    if not isinstance(data, dict):
        return []
    holders = (data, object_at(data, "request"), object_at(data, "values"))
    return next((found for holder in holders if isinstance(found := holder.get("messages"), list)), [])


def _is_anthropic(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") in ("tool_use", "tool_result", "thinking")
