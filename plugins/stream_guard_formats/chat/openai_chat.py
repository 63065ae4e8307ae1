"""OpenAI chat transcripts: a list of messages, a request with it, or a request with its response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record
from stream_guard_formats.chat.messages import find_session, is_transcript, message_style, open_chat
from stream_guard_formats.conversation import (
    Conversation,
    ResultStatus,
    identifier,
    label,
    text_block,
    text_of,
    tool_use,
)
from stream_guard_formats.reading import excerpt, object_at, objects_in, text_at

_SILENT: Final = ("system", "developer")
_IDENTIFYING: Final = ("content", "function_call", "role", "tool_call_id", "tool_calls")  # sorted: ids depend on it


class OpenAIChatDecoder(JsonDecoder):
    """Reads chat completions as they are logged. A message that a later record sends again keeps its event id."""

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a conversation. Plain messages look the same in all formats."""
        if isinstance(data, dict):
            has_choices = isinstance(data.get("choices"), list) and "messages" not in data
            if has_choices or data.get("object") == "chat.completion":
                return 0.9
        style = message_style(data)
        return 0.9 if style == "openai" else 0.5 if style == "plain" else 0.0

    def reads_list(self, items: Sequence[Json]) -> bool:
        """Whether the list is one transcript, not a list of them."""
        return is_transcript(items)

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the transcript in order, or raise DecodeError."""
        if isinstance(data, dict) and isinstance(data.get("choices"), list) and "request" not in data:
            data = {"messages": []} | data  # a completion without its request
        chat, request, messages = open_chat(data, "an OpenAI chat", ("request",))
        response = object_at(chat, "response") or chat
        model = text_at(response, "model") or text_at(request, "model")
        conversation = Conversation(find_session(chat, record.value), labels={"model": label(model)} if model else None)
        for message in messages:
            add_message(conversation, message, strict_keys=self.strict_keys)
        choices = objects_in(response, "choices", "choices")
        for choice in choices[:1]:
            # The user saw one of several choices. The others are kept, but they are no messages.
            others = [object_at(other, "message") for other in choices[1:]]
            extra = {
                "stop_reason": choice.get("finish_reason"),
                "usage": response.get("usage"),
                "choices": others or None,
            }
            answer = object_at(choice, "message") | {"role": "assistant"}
            add_message(conversation, answer, strict_keys=self.strict_keys, extra=extra, **given_request(request))
        return conversation.events


def given_request(request: dict[str, Json]) -> dict[str, Json]:
    """Return what an agent was given with its messages: tools and instructions, as the request of a turn."""
    given = {name: request[name] for name in ("tools", "system", "instructions") if request.get(name)}
    model = text_at(request, "model")
    return {"request": given | ({"model": model} if model else {})} if given else {}


def add_message(
    conversation: Conversation,
    message: dict[str, Json],
    *,
    strict_keys: bool,
    extra: dict[str, Json] | None = None,
    **header: Any,
) -> None:
    """Add the event of one message. Instructions to the model have none."""
    role = message.get("role")
    if role == "user":
        conversation.user(_identity(message), text_of(message.get("content")), **header)
    elif role == "assistant":
        conversation.turn(_identity(message), blocks_of(message, strict_keys=strict_keys), extra=extra, **header)
    elif role in ("tool", "function"):
        output = text_of(message.get("content"))
        conversation.result(
            _identity(message),
            identifier(message.get("tool_call_id")),
            output,
            status=status_of(output),
            tool=text_at(message, "name"),
            **header,
        )
    elif role not in _SILENT:
        raise DecodeError(
            f'a message has the role {excerpt(role)}; an OpenAI chat knows "user", "assistant", "tool" and "system"'
        )


def blocks_of(message: dict[str, Json], *, strict_keys: bool) -> list[Json]:
    """Return the text and the calls of an assistant's message as blocks."""
    content = message.get("content")
    text = content if isinstance(content, str) else text_of(content)
    if not text and "refusal" in message:
        text = text_of(message["refusal"])
    blocks: list[Json] = [text_block(text)] if text else []
    for call in objects_in(message, "tool_calls", "tool calls") if "tool_calls" in message else ():
        function = object_at(call, "function") or object_at(call, "custom")
        arguments = function.get("arguments", function.get("input"))
        blocks.append(tool_use(call.get("id"), function.get("name"), arguments, strict_keys=strict_keys))
    if "function_call" in message and (legacy := object_at(message, "function_call")):
        blocks.append(tool_use("", legacy.get("name"), legacy.get("arguments"), strict_keys=strict_keys))
    return blocks


def status_of(output: str) -> ResultStatus:
    """Return the status of a result. The format has no flag for it: by custom, an error begins with the word."""
    return "error" if output.startswith(("Error", "error:")) else "ok"


def _identity(message: dict[str, Json]) -> Json:
    """Return the fields that identify a message. An answer that is sent again has fewer fields than at first."""
    return {name: value for name in _IDENTIFYING if (value := message.get(name))}
