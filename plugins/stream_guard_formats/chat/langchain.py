"""LangChain and LangGraph messages: dumped, wrapped in ``data``, or written as constructors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record
from stream_guard_formats.chat.messages import find_session, is_transcript, message_style, open_chat
from stream_guard_formats.chat.openai_chat import blocks_of
from stream_guard_formats.conversation import Conversation, identifier, label, text_block, text_of, tool_use
from stream_guard_formats.reading import excerpt, has_fields, object_at, objects_in, text_at

_ROLES: Final = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
    "remove": "system",
}


class LangChainDecoder(JsonDecoder):
    """Reads lists of messages, states of a graph and results of a chain. A message keeps its id when sent again."""

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a conversation, by its agent or its messages."""
        return 0.9 if has_fields(data, "lc_agent_name", "messages") or message_style(data) == "langchain" else 0.0

    def reads_list(self, items: Sequence[Json]) -> bool:
        """Whether the list is one transcript, not a list of them."""
        return is_transcript(items)

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the messages in order, or raise DecodeError."""
        opened = open_chat(data, "a LangChain transcript", ("values",))
        thread = text_at(object_at(object_at(opened.data, "config"), "configurable"), "thread_id")
        conversation = Conversation(thread or find_session(opened.data, record.value))
        for role, message in join_chunks([unwrap(message) for message in opened.messages]):
            self._add(conversation, role, message)
        return conversation.events

    def _add(self, conversation: Conversation, role: str, message: dict[str, Json]) -> None:
        identity = [role, *(message.get(name) for name in ("id", "content", "tool_calls", "tool_call_id"))]
        if role == "user":
            conversation.user(identity, text_of(message.get("content")))
        elif role == "assistant":
            self._answer(conversation, identity, message)
        elif role == "tool":
            conversation.result(
                identity,
                identifier(message.get("tool_call_id")),
                text_of(message.get("content")),
                status="error" if message.get("status") == "error" else "ok",
                tool=text_at(message, "name"),
            )

    def _answer(self, conversation: Conversation, identity: Json, message: dict[str, Json]) -> None:
        metadata = object_at(message, "response_metadata")
        extra = {
            "stop_reason": metadata.get("finish_reason", metadata.get("stop_reason")),
            "usage": message.get("usage_metadata") or metadata.get("token_usage"),
        }
        model = text_at(metadata, "model_name", "model")
        name = text_at(message, "name")
        header: dict[str, Json] = {"agent": name[:200], "run_id": name[:200]} if name else {}
        if model:
            header["labels"] = {"model": label(model)}
        conversation.turn(identity, self._content(message), extra=extra, **header)

    def _content(self, message: dict[str, Json]) -> list[Json]:
        text = text_of(message.get("content"))
        blocks: list[Json] = [text_block(text)] if text else []
        # Calls whose arguments could not be parsed have a list of their own; they were attempts too.
        calls = [
            *objects_in(message, "tool_calls", "tool calls"),
            *objects_in(message, "invalid_tool_calls", "tool calls"),
        ]
        blocks += [
            tool_use(call.get("id"), call.get("name"), call.get("args"), strict_keys=self.strict_keys) for call in calls
        ]
        if not calls:  # older versions have them in the provider's form only; newer ones have both
            named = object_at(message, "additional_kwargs") | {"content": None}
            blocks += blocks_of(named, strict_keys=self.strict_keys)
        return blocks


def join_chunks(messages: list[tuple[str, dict[str, Json]]]) -> list[tuple[str, dict[str, Json]]]:
    """Return the messages, with the chunks of one answer as one. Chunks of an answer share its id."""
    joined: list[tuple[str, dict[str, Json]]] = []
    for role, message in messages:
        before = joined[-1][1] if joined else {}
        is_chunk = role == "assistant" and message.get("id") and before.get("id") == message["id"]
        if not is_chunk or joined[-1][0] != role:
            joined.append((role, message))
            continue
        # Later chunks go on with the text and the arguments, and the last ones hold usage and finish reason.
        merged = before | {name: value for name, value in message.items() if value}
        merged["content"] = _join_content(before.get("content"), message.get("content"))
        pieces = [*objects_in(before, "tool_call_chunks", "chunks"), *objects_in(message, "tool_call_chunks", "chunks")]
        if pieces:
            merged["tool_call_chunks"], merged["tool_calls"] = pieces, _join_calls(pieces)
            merged["invalid_tool_calls"] = []
        for name in ("usage_metadata", "response_metadata"):
            merged[name] = _add_numbers(object_at(before, name), object_at(message, name))
        joined[-1] = role, merged
    return joined


def _join_content(one: Json, other: Json) -> Json:
    if isinstance(one, str) and isinstance(other, str):
        return one + other
    texts = [text_of(part) if isinstance(part, list) else part for part in (one, other)]
    return "".join(text for text in texts if isinstance(text, str))


def _join_calls(pieces: list[dict[str, Json]]) -> list[Json]:
    calls: dict[Json, dict[str, Json]] = {}
    for piece in pieces:
        call = calls.setdefault(str(piece.get("index")), {"id": None, "name": None, "args": ""})
        call["id"], call["name"] = call["id"] or piece.get("id"), call["name"] or piece.get("name")
        call["args"] += piece["args"] if isinstance(piece.get("args"), str) else ""
    return list(calls.values())


def _add_numbers(one: dict[str, Json], other: dict[str, Json]) -> dict[str, Json]:
    """Return both objects as one; numbers that both have are added up."""
    total = one | other
    for name in one.keys() & other.keys():
        if type(one[name]) is int and type(other[name]) is int:
            total[name] = one[name] + other[name]
    return total


def unwrap(message: dict[str, Json]) -> tuple[str, dict[str, Json]]:
    """Return the role and the fields of a message, in any of its forms."""
    kind = message.get("type", message.get("role"))
    if kind == "constructor":
        names = message.get("id")
        kind = names[-1] if isinstance(names, list) and names else None
        message = object_at(message, "kwargs")
    elif isinstance(message.get("data"), dict):
        message = message["data"]
    word = kind.removesuffix("Chunk").removesuffix("Message").lower() if isinstance(kind, str) else ""
    if word not in _ROLES:
        raise DecodeError(f"a message has the type {excerpt(kind)}; LangChain knows human, ai, tool and system")
    return _ROLES[word], message
