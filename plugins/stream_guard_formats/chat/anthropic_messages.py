"""Anthropic messages: a request with its messages, and the response to it if it was recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record
from stream_guard_formats.chat.messages import find_session, is_transcript, message_style, open_chat
from stream_guard_formats.chat.openai_chat import given_request
from stream_guard_formats.conversation import (
    Conversation,
    ResultStatus,
    identifier,
    label,
    text_block,
    text_of,
    tool_use,
)
from stream_guard_formats.reading import excerpt, name_of, object_at, objects_of, text_at

ReadStatus = Callable[[dict[str, Json], str], ResultStatus]
"""Returns the status of a result, from its block and its text."""


class AnthropicDecoder(JsonDecoder):
    """Reads messages with content blocks. A message that a later record sends again keeps its event id."""

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a conversation, by the blocks of its messages."""
        return 0.9 if message_style(data) == "anthropic" else 0.0

    def reads_list(self, items: Sequence[Json]) -> bool:
        """Whether the list is one transcript, not a list of them."""
        return is_transcript(items)

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the transcript in order, or raise DecodeError."""
        chat, request, messages = open_chat(data, "an Anthropic transcript", ("request",))
        response = object_at(chat, "response")
        model = text_at(response, "model") or text_at(request, "model")
        conversation = Conversation(find_session(chat, record.value), labels={"model": label(model)} if model else None)
        for message in messages:
            self._add(conversation, message)
        if response:
            self._add(conversation, response, **given_request(request))
        return conversation.events

    def _add(self, conversation: Conversation, message: dict[str, Json], **header: Any) -> None:
        role = message.get("role")
        if role == "assistant":
            extra = {"stop_reason": message.get("stop_reason"), "usage": message.get("usage")}
            blocks = answer_blocks(message.get("content"), strict_keys=self.strict_keys)
            conversation.turn(["assistant", blocks], blocks, extra=extra, **header)
            add_answer_results(conversation, message.get("content"))
        elif role == "user":
            add_user(conversation, message.get("content"))
        elif role != "system":
            raise DecodeError(f'a message has the role {excerpt(role)}; Anthropic knows "user" and "assistant"')


def blocks_in(content: Json) -> list[dict[str, Json]]:
    """Return the content of a message as blocks. A plain text is one block."""
    if isinstance(content, str):
        return [text_block(content)] if content else []
    if content is None:
        return []
    if not isinstance(content, list):
        raise DecodeError(f'"content" must be a text or a list of blocks, this is {name_of(content)}')
    return objects_of([text_block(item) if isinstance(item, str) else item for item in content], "content", "blocks")


def answer_blocks(content: Json, *, strict_keys: bool) -> list[Json]:
    """Return the text blocks and the tool-use blocks of an answer, without its thinking."""
    blocks: list[Json] = []
    for block in blocks_in(content):
        if block.get("type") == "text" and (text := text_of([block])):
            blocks.append(text_block(text))
        elif block.get("type") in ("tool_use", "server_tool_use", "mcp_tool_use"):
            blocks.append(tool_use(block.get("id"), block.get("name"), block.get("input"), strict_keys=strict_keys))
    return blocks


def add_answer_results(conversation: Conversation, content: Json, **header: Any) -> None:
    """Add the results in an answer: those of tools that ran at the provider, or of an MCP server connected to it."""
    event_id = header.pop("event_id", "")
    for number, block in enumerate(content if isinstance(content, list) else ()):
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(kind, str) and kind.endswith("_tool_result"):
            result = block.get("content")
            failed = isinstance(result, dict) and str(result.get("type")).endswith("_error")
            conversation.result(
                block,
                identifier(block.get("tool_use_id")),
                text_of(result) or msgspec.json.encode(result).decode(),
                status="error" if failed or block.get("is_error") is True else "ok",
                event_id=f"{event_id}/{number}" if event_id else "",
                **header,
            )


def add_user(
    conversation: Conversation,
    content: Json,
    *,
    read_status: ReadStatus | None = None,
    person: bool = True,
    **header: Any,
) -> None:
    """Add the results in a message with the user's role, and then its text if a ``person`` wrote it."""
    blocks = blocks_in(content)
    event_id = header.pop("event_id", "")
    for number, block in enumerate(blocks):
        if block.get("type") == "tool_result":
            output = text_of(block.get("content"))
            conversation.result(
                block,
                identifier(block.get("tool_use_id")),
                output,
                status=(read_status or result_status)(block, output),
                event_id=f"{event_id}/{number}" if event_id else "",
                **header,
            )
    text = text_of([block for block in blocks if block.get("type") == "text"])
    if text and person:
        conversation.user(["user", text], text, event_id=event_id, **header)


def result_status(block: dict[str, Json], _text: str) -> ResultStatus:
    """Return the status of a result, by the flag in its block."""
    return "error" if block.get("is_error") is True else "ok"
