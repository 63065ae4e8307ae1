"""Messages in telemetry, in any convention: the role, the text, the calls and the results of each."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from stream_guard import Json, parse_json
from stream_guard_formats.conversation import identifier, text_of, tool_use
from stream_guard_formats.reading import object_at, text_at

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
