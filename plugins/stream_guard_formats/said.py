"""Messages as telemetry keeps them, in any of the conventions it is met in: who said, called and got what."""

from __future__ import annotations

from typing import Final, NamedTuple

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
# Objects that only hold messages, by the field that holds them.
_HOLDERS: Final = ("messages", "choices", "candidates", "output", "contents", "prompt")
_DEEPEST: Final = 6


class Result(NamedTuple):
    """What came of a call, as a message tells it."""

    call_id: str
    tool: str
    output: str
    failed: bool


class Said(NamedTuple):
    """One message."""

    role: str  # user, assistant, tool or system
    text: str = ""
    calls: tuple[dict[str, Json], ...] = ()  # tool-use blocks
    results: tuple[Result, ...] = ()


def unpack(value: Json) -> Json:
    """Return what a text holds that is JSON, or JSON in JSON; anything else as it is."""
    for _ in range(2):
        if not isinstance(value, str) or value[:1] not in ("{", "[", '"'):
            return value
        try:
            value = parse_json(value.encode(), strict_keys=False)
        except (ValueError, RecursionError):
            return value
    return value


def read_said(value: Json, role: str = "", *, depth: int = 0) -> list[Said]:
    """Return the messages in a value; ``role`` is whose it is where a message does not say, empty to leave it out."""
    value = unpack(value)
    if depth > _DEEPEST:
        return []
    if isinstance(value, str):
        return [Said(role, value)] if role and value else []
    if isinstance(value, list):
        return [said for one in value for said in read_said(one, role, depth=depth + 1)]
    return _object(value, role, depth) if isinstance(value, dict) else []


def _object(value: dict[str, Json], role: str, depth: int) -> list[Said]:
    names = value.get("id")
    if value.get("lc") == 1 and isinstance(value.get("kwargs"), dict):
        return _message(value["kwargs"] | {"role": names[-1] if isinstance(names, list) and names else ""}, role)
    if "role" in value or value.get("type") in ("human", "ai", "tool", "system", "message"):
        return _message(value, role)
    if item := _item(value):
        return [item]
    for holder in (*_HOLDERS, "message"):
        if value.get(holder):
            inside = "user" if holder in ("prompt", "contents") else role
            return read_said(value[holder], inside, depth=depth + 1)
    if isinstance(value.get("content"), dict):  # Gemini: {"content": {"parts": [...], "role": "model"}}
        return read_said(value["content"], role, depth=depth + 1)
    return _message(value | {"role": role}, role) if role == "assistant" else []


def _item(item: dict[str, Json]) -> Said | None:
    """Return what an item says that is no message: a call or a result that stands for itself."""
    kind = item.get("type")
    if kind == "function_call":
        return Said("assistant", calls=(_use(item.get("call_id"), item.get("name"), item.get("arguments")),))
    if kind == "function_call_output":
        output = text_of(item.get("output"))
        return Said("tool", results=(Result(identifier(item.get("call_id")), "", output, failed=False),))
    if "toolCallId" in item and "toolName" in item:
        args = item.get("input", item.get("args"))
        return Said("assistant", calls=(_use(item["toolCallId"], item["toolName"], args),))
    return None


def _message(message: dict[str, Json], default: str) -> list[Said]:
    word = message.get("role", message.get("type"))
    word = word.removesuffix("Chunk").removesuffix("Message").lower() if isinstance(word, str) else ""
    # Some exports write a tool's name in the place of its role.
    role = _ROLES.get(word, "tool" if word and "role" in message else default)
    named = "" if word in _ROLES else text_at(message, "role")
    content = message.get("content", message.get("parts", message.get("text")))
    parts = content if isinstance(content, list) else message.get("parts")
    calls, results, texts = _parts(parts if isinstance(parts, list) else [])
    text = "\n".join(texts) if isinstance(content, list) else text_of(content)
    if not calls:  # the same calls stand in several places; one is enough
        calls = _calls(message)
    if role == "tool" and not results:
        call_id = identifier(message.get("tool_call_id", message.get("id")))
        tool = text_at(message, "name") or named
        if not call_id and not tool:
            return []  # a tool's description, which some exports list among the messages
        results = [Result(call_id, tool, text, message.get("status") == "error")]
        text = ""
    if not role:
        return []
    if results and not text and not calls:
        role = "tool"
    return [Said(role, text, tuple(calls), tuple(results))]


def _calls(message: dict[str, Json]) -> list[dict[str, Json]]:
    found = message.get("tool_calls") or object_at(message, "additional_kwargs").get("tool_calls")
    calls: list[dict[str, Json]] = []
    for call in found if isinstance(found, list) else []:
        if isinstance(call, dict):
            function = object_at(call, "function") or call
            calls.append(_use(call.get("id"), function.get("name"), function.get("arguments", function.get("args"))))
    return calls


def _parts(parts: list[Json]) -> tuple[list[dict[str, Json]], list[Result], list[str]]:
    calls: list[dict[str, Json]] = []
    results: list[Result] = []
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            _part(part, calls, results, texts)
    return calls, results, [text for text in texts if text]


def _part(part: dict[str, Json], calls: list[dict[str, Json]], results: list[Result], texts: list[str]) -> None:
    kind = part.get("type")
    if kind in ("tool_call", "tool_use", "tool-call"):
        args = part.get("arguments", part.get("input", part.get("args")))
        calls.append(_use(part.get("id", part.get("toolCallId")), part.get("name", part.get("toolName")), args))
    elif call := object_at(part, "function_call") or object_at(part, "functionCall"):
        calls.append(_use(call.get("id"), call.get("name"), call.get("args")))
    elif kind in ("tool_call_response", "tool_result", "tool-result"):
        call_id = part.get("id", part.get("tool_use_id", part.get("toolCallId")))
        output = part.get("response", part.get("result", part.get("content", part.get("output"))))
        results.append(Result(identifier(call_id), "", shown(output), part.get("is_error") is True))
    elif answer := object_at(part, "function_response") or object_at(part, "functionResponse"):
        results.append(
            Result(identifier(answer.get("id")), text_at(answer, "name"), shown(answer.get("response")), failed=False)
        )
    elif kind not in ("thinking", "reasoning"):
        texts.append(text_of([part]))


def shown(output: Json) -> str:
    """Return a result as the text that the model got to see."""
    return output if isinstance(output, str) else text_of(output)


def _use(call_id: Json, name: Json, arguments: Json) -> dict[str, Json]:
    return tool_use(call_id, name, arguments, strict_keys=False)
