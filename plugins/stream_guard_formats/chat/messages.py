"""Messages in telemetry, in any convention: the role, the text, the calls and the results of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from stream_guard import DecodeError, Json, parse_json
from stream_guard_formats.conversation import derived_session, identifier, text_of, tool_use
from stream_guard_formats.reading import as_object, name_of, object_at, objects_of, text_at

_ROLES: Final = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}
# Fields of objects that only wrap messages.
_WRAPPERS: Final = ("messages", "choices", "candidates", "output", "contents", "prompt")
_MAX_DEPTH: Final = 6
# Parts that nobody says: what a model thinks, what a provider keeps of a long conversation, and files.
_UNSAID: Final = ("thinking", "reasoning", "redacted_thinking", "compaction", "blob", "file", "uri")


class CallResult(NamedTuple):
    """The result of a tool call, as a message states it."""

    call_id: str
    tool: str
    output: str
    failed: bool


class Message(NamedTuple):
    """One message to or from a model."""

    role: str  # user, assistant, tool or system
    text: str = ""
    calls: tuple[dict[str, Json], ...] = ()  # tool-use blocks
    results: tuple[CallResult, ...] = ()


def unpack(value: Json) -> Json:
    """Parse a text that holds JSON, or JSON in JSON. Return any other value unchanged."""
    for _ in range(2):
        if not isinstance(value, str) or value[:1] not in ("{", "[", '"'):
            return value
        try:
            value = parse_json(value.encode(), strict_keys=False)
        except (ValueError, RecursionError):
            return value
    return value


def read_messages(value: Json, default_role: str = "", *, depth: int = 0) -> list[Message]:
    """Return the messages in a value.

    A message without a role has ``default_role``. With an empty ``default_role`` such a message is left out.
    """
    value = unpack(value)
    if depth > _MAX_DEPTH:
        return []
    if isinstance(value, str):
        return [Message(default_role, value)] if default_role and value else []
    if isinstance(value, list):
        return [message for item in value for message in read_messages(item, default_role, depth=depth + 1)]
    return _read_object(value, default_role, depth) if isinstance(value, dict) else []


def _read_object(value: dict[str, Json], default_role: str, depth: int) -> list[Message]:
    names = value.get("id")
    if value.get("lc") == 1 and isinstance(value.get("kwargs"), dict):
        role = names[-1] if isinstance(names, list) and names else ""
        return _read_message(value["kwargs"] | {"role": role}, default_role)
    if "role" in value or value.get("type") in ("human", "ai", "tool", "system", "message"):
        return _read_message(value, default_role)
    if item := _read_item(value):
        return [item]
    for wrapper in (*_WRAPPERS, "message"):
        if value.get(wrapper):
            inner_role = "user" if wrapper in ("prompt", "contents") else default_role
            return read_messages(value[wrapper], inner_role, depth=depth + 1)
    if isinstance(value.get("content"), dict):  # Gemini: {"content": {"parts": [...], "role": "model"}}
        return read_messages(value["content"], default_role, depth=depth + 1)
    return _read_message(value | {"role": default_role}, default_role) if default_role == "assistant" else []


def _read_item(item: dict[str, Json]) -> Message | None:
    """Return a call or a result that stands outside any message, as a message of its own."""
    kind = item.get("type")
    if kind == "function_call":
        return Message("assistant", calls=(_call_block(item.get("call_id"), item.get("name"), item.get("arguments")),))
    if kind == "function_call_output":
        output = text_of(item.get("output"))
        return Message("tool", results=(CallResult(identifier(item.get("call_id")), "", output, failed=False),))
    if "toolCallId" in item and "toolName" in item:
        args = item.get("input", item.get("args"))
        return Message("assistant", calls=(_call_block(item["toolCallId"], item["toolName"], args),))
    return None


def _read_message(message: dict[str, Json], default_role: str) -> list[Message]:
    role, tool_in_role = _read_role(message, default_role)
    content = message["content"] if "content" in message else message.get("parts", message.get("text"))
    parts = content if isinstance(content, list) else message.get("parts")
    calls, results, texts = _read_parts(parts) if isinstance(parts, list) else ([], [], [])
    text = "\n".join(texts) if isinstance(content, list) else text_of(content)
    if not calls:  # the same calls stand in several places; one is enough
        calls = _read_calls(message)
    if role == "tool" and not results:
        call_id = identifier(message.get("tool_call_id", message.get("id")))
        tool = text_at(message, "name") or tool_in_role
        if not call_id and not tool:
            return []  # a tool's description, which some exports list among the messages
        results = [CallResult(call_id, tool, text, message.get("status") == "error")]
        text = ""
    if not role:
        return []
    if results and not text and not calls:
        role = "tool"
    return [Message(role, text, tuple(calls), tuple(results))]


def _read_role(message: dict[str, Json], default_role: str) -> tuple[str, str]:
    """Return the role, and the name of a tool that some exports write in its place."""
    word = message.get("role", message.get("type"))
    if not isinstance(word, str):
        return default_role, text_at(message, "role")
    if word not in _ROLES:
        word = word.removesuffix("Chunk").removesuffix("Message").lower()
    if word in _ROLES:
        return _ROLES[word], ""
    return "tool" if word and "role" in message else default_role, text_at(message, "role")


def _read_calls(message: dict[str, Json]) -> list[dict[str, Json]]:
    found = message.get("tool_calls")
    if not found and "additional_kwargs" in message:
        found = object_at(message, "additional_kwargs").get("tool_calls")
    calls: list[dict[str, Json]] = []
    for call in found if isinstance(found, list) else []:
        if isinstance(call, dict):
            function = object_at(call, "function") or call
            args = function.get("arguments", function.get("args"))
            calls.append(_call_block(call.get("id"), function.get("name"), args))
    return calls


def _read_parts(parts: list[Json]) -> tuple[list[dict[str, Json]], list[CallResult], list[str]]:
    """Return the calls, the results and the texts among the parts of a message."""
    calls: list[dict[str, Json]] = []
    results: list[CallResult] = []
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            _read_part(part, calls, results, texts)
    return calls, results, [text for text in texts if text]


def _read_part(
    part: dict[str, Json], calls: list[dict[str, Json]], results: list[CallResult], texts: list[str]
) -> None:
    kind = part.get("type")
    if kind == "text":
        texts.append(text_of([part]))
    elif kind in ("tool_call", "tool_use", "tool-call", "server_tool_call", "server_tool_use", "mcp_tool_use"):
        args = part.get("arguments", part.get("input", part.get("args", part.get("server_tool_call"))))
        calls.append(_call_block(part.get("id", part.get("toolCallId")), part.get("name", part.get("toolName")), args))
    elif call := object_at(part, "function_call") or object_at(part, "functionCall"):
        calls.append(_call_block(call.get("id"), call.get("name"), call.get("args")))
    elif use := object_at(part, "toolUse"):  # Bedrock
        calls.append(_call_block(use.get("toolUseId"), use.get("name"), use.get("input")))
    elif kind in ("tool_call_response", "server_tool_call_response", "tool_result", "tool-result", "mcp_tool_result"):
        call_id = part.get("id", part.get("tool_use_id", part.get("toolCallId")))
        output = part.get("response", part.get("result", part.get("content", part.get("output"))))
        failed = part.get("is_error") is True or part.get("isError") is True
        if kind == "server_tool_call_response":
            output = part.get("server_tool_call_response", output)
            failed = failed or object_at(part, kind).get("status") in ("failed", "error", "incomplete")
        results.append(CallResult(identifier(call_id), "", _output_text(output), failed))
    elif outcome := object_at(part, "toolResult"):
        failed = outcome.get("status") == "error"
        results.append(
            CallResult(identifier(outcome.get("toolUseId")), "", _output_text(outcome.get("content")), failed)
        )
    elif answer := object_at(part, "function_response") or object_at(part, "functionResponse"):
        output = _output_text(answer.get("response"))
        results.append(CallResult(identifier(answer.get("id")), text_at(answer, "name"), output, failed=False))
    elif kind not in _UNSAID:
        texts.append(text_of([part]))


def _output_text(output: Json) -> str:
    """Return a result as text: its own text, or JSON where it has none."""
    text = text_of(output)
    return text if text or not output else msgspec.json.encode(output).decode()


def _call_block(call_id: Json, name: Json, arguments: Json) -> dict[str, Json]:
    return tool_use(call_id, name, arguments, strict_keys=True)


def may_hold_result(output: Json) -> bool:
    """Whether a value may hold a message with a result. This is cheap, because most values do not."""
    if isinstance(output, str):
        return '"tool_call_id"' in output
    if isinstance(output, dict):
        return "tool_call_id" in output or "tool_call_id" in object_at(output, "kwargs")
    return False


# The style of a list of messages: whose way of writing calls and results it has.


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


# Transcripts: records with a list of messages, found at one of the places where formats keep it.


# Fields that may hold the id of the conversation, best first; also under "metadata".
SESSION_FIELDS: Final = ("session_id", "sessionId", "conversation_id", "conversationId", "thread_id", "threadId")


class Transcript(NamedTuple):
    """A record with a list of messages."""

    data: dict[str, Json]  # the whole record
    holder: dict[str, Json]  # the object that holds the list
    messages: list[dict[str, Json]]


def open_run(data: Json, what: str, field: str, *, advice: str = "") -> Transcript:
    """Return a record that is an object with a list of objects in one field, or raise DecodeError.

    ``what`` names the expected record in the reason. ``advice`` is added to the reason if the field is missing.
    """
    run = as_object(data, what)
    if field not in run:
        raise DecodeError(f'{what} has "{field}", and this record has none{advice}')
    return Transcript(run, run, messages_in(run[field], field))


def open_chat(data: Json, what: str, holders: Sequence[str], *, fields: Sequence[str] = ("messages",)) -> Transcript:
    """Return a record that is a list of messages, or an object with the list at its top or inside one of ``holders``.

    ``what`` names the expected record in the reason of a DecodeError.
    """
    if isinstance(data, list):
        data = {fields[0]: data}
    if not isinstance(data, dict):
        raise DecodeError(f"{what} is an object or a list of messages, this is {name_of(data)}")
    holder = next((found for name in holders if (found := object_at(data, name))), data)
    field = next((name for name in fields if name in holder), None)
    if field is None:
        places = " or ".join(["at the top", *(f'under "{name}"' for name in holders)])
        raise DecodeError(f'{what} has "{fields[0]}" {places}, and this record has none')
    return Transcript(data, holder, messages_in(holder[field], field))


def is_transcript(items: Sequence[Json]) -> bool:
    """Whether a list holds the messages of one transcript, and not transcripts."""
    holders = ("messages", "request", "response", "choices", "values")
    return not any(isinstance(item, dict) and any(name in item for name in holders) for item in items[:1])


def messages_in(found: Json, field: str) -> list[dict[str, Json]]:
    """Return a list of messages, or raise DecodeError."""
    if not isinstance(found, list):
        raise DecodeError(f'"{field}" must be a list of messages, this is {name_of(found)}')
    return objects_of(found, field, "messages")


def find_session(data: dict[str, Json], value: bytes) -> str:
    """Return the id of the conversation in a record, or one derived from the bytes of the record."""
    return (
        text_at(data, *SESSION_FIELDS)
        or text_at(object_at(data, "metadata"), *SESSION_FIELDS)
        or derived_session(value)
    )
