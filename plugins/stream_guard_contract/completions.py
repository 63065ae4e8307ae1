"""Chat completions as OpenAI writes them, whole or as a stream: read, distorted, and written again.

What comes from a model is not trusted to have the shape it should have: what is missing or of another type reads as
empty, and nothing here raises on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from stream_guard.language.arguments import parse_arguments
from stream_guard.model import Json
from stream_guard_contract.faults import Refused, distort
from stream_guard_contract.forms import LlmFault

_STOPS: Final = {"stop": "end_turn", "tool_calls": "tool_use", "function_call": "tool_use", "length": "max_tokens"}
_DONE: Final = b"data: [DONE]\n\n"
_MOST_CALLS: Final = 128  # of one answer; a stream may claim any number


class Wanted(msgspec.Struct):
    """A tool call as a model writes it; the arguments are text, and may be anything."""

    id: str = ""
    name: str = ""
    arguments: str = ""


class Said(msgspec.Struct):
    """What a model answered."""

    text: str = ""
    calls: list[Wanted] = []
    finish: str = ""
    model: str = ""
    id: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


def read_completion(body: bytes) -> Said | None:
    """Return the first choice of a completion, or None when the body is none."""
    data = _json(body)
    choices = data.get("choices") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(choices, list):
        return None
    said = Said(model=_text(data.get("model")), id=_text(data.get("id")))
    _count(said, data.get("usage"))
    first = choices[0] if choices and isinstance(choices[0], dict) else {}
    said.finish = _text(first.get("finish_reason"))
    _add(said, first.get("message"))
    return said


def read_stream(body: bytes) -> Said:
    """Return what the chunks of a stream add up to; lines that are no chunk are passed over."""
    said = Said()
    for line in body.splitlines():
        data = _json(line[5:]) if line.startswith(b"data:") else None
        if not isinstance(data, dict):
            continue
        said.model = said.model or _text(data.get("model"))
        said.id = said.id or _text(data.get("id"))
        _count(said, data.get("usage"))
        choices = data.get("choices")
        first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        said.finish = _text(first.get("finish_reason")) or said.finish
        _add(said, first.get("delta"))
    return said


def distort_said(said: Said, fault: LlmFault) -> Said | Refused:
    """Return the answer as the fault leaves it: equal to what it was where the fault finds nothing to change."""
    text = distort(said.text, fault)
    if isinstance(text, Refused):
        return text
    match fault.mode:
        case "empty" | "garbage":
            return msgspec.structs.replace(said, text=text, calls=[], finish="stop")
        case "truncated_response":
            return msgspec.structs.replace(said, text=text, finish=said.finish if text == said.text else "length")
        case "response_drift" if (fault.drift_type or "json_field_rename") == "json_field_rename":
            # The arguments of a call are what an object of a model is today.
            calls = [
                msgspec.structs.replace(call, arguments=str(distort(call.arguments, fault))) for call in said.calls
            ]
            return msgspec.structs.replace(said, text=text, calls=calls)
        case _:
            return msgspec.structs.replace(said, text=text)


def write_completion(said: Said) -> bytes:
    """Return the answer as one completion."""
    message: dict[str, Json] = {"role": "assistant", "content": said.text}
    if said.calls:
        message["tool_calls"] = _calls(said)
    choice = {"index": 0, "message": message, "finish_reason": said.finish or "stop"}
    return _encode({**_head(said, "chat.completion"), "choices": [choice], "usage": _usage(said)})


def write_stream(said: Said) -> Iterator[bytes]:
    """Yield the answer as the chunks of a stream, word by word."""
    head = _head(said, "chat.completion.chunk")

    def chunk(delta: dict[str, Json], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return b"data: " + _encode({**head, "choices": [choice]}) + b"\n\n"

    yield chunk({"role": "assistant", "content": ""})
    for number, piece in enumerate(said.text.split(" ")):
        yield chunk({"content": f" {piece}" if number else piece})
    for number, call in enumerate(_calls(said)):
        yield chunk({"tool_calls": [{"index": number, **call}]})
    yield chunk({}, said.finish or "stop")
    yield _DONE


def error_body(refused: Refused) -> bytes:
    """Return a refusal as the error that clients of this interface know."""
    kind = "rate_limit_error" if refused.status == 429 else "server_error"
    code = "rate_limit_exceeded" if refused.status == 429 else None
    return _encode({"error": {"message": refused.body, "type": kind, "param": None, "code": code}})


def to_response(said: Said, latency_ms: float) -> dict[str, Json]:
    """Return the answer as the response of a turn."""
    content: list[Json] = [{"type": "text", "text": said.text}] if said.text else []
    for call in said.calls:
        args, _broken = parse_arguments(call.arguments) if call.arguments else ({}, False)
        content.append({"type": "tool_use", "id": call.id, "name": call.name, "input": args})
    return {
        "model": said.model,
        "content": content,
        "stop_reason": _STOPS.get(said.finish, said.finish) or ("tool_use" if said.calls else "end_turn"),
        "latency_ms": latency_ms,
        "usage": {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens},
    }


def _add(said: Said, message: Any) -> None:
    """Add what a message, or a piece of one, says."""
    if not isinstance(message, dict):
        return
    said.text += _text(message.get("content"))
    calls = message.get("tool_calls")
    for number, call in enumerate(calls if isinstance(calls, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            continue
        index = call.get("index", number)
        place = index if isinstance(index, int) and 0 <= index < _MOST_CALLS else _MOST_CALLS - 1
        while len(said.calls) <= place:
            said.calls.append(Wanted())
        wanted = said.calls[place]
        wanted.id = wanted.id or _text(call.get("id"))
        wanted.name = wanted.name or _text(function.get("name"))
        wanted.arguments += _text(function.get("arguments"))


def _count(said: Said, usage: Any) -> None:
    if isinstance(usage, dict):
        said.input_tokens = _number(usage.get("prompt_tokens"))
        said.output_tokens = _number(usage.get("completion_tokens"))


def _calls(said: Said) -> list[dict[str, Json]]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in said.calls
    ]


def _head(said: Said, kind: str) -> dict[str, Json]:
    return {"id": said.id or "chatcmpl-0", "object": kind, "created": 0, "model": said.model}


def _usage(said: Said) -> dict[str, int]:
    total = said.input_tokens + said.output_tokens
    return {"prompt_tokens": said.input_tokens, "completion_tokens": said.output_tokens, "total_tokens": total}


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**40 else 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _json(text: bytes) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _encode(value: Json) -> bytes:
    return json.dumps(value).encode()  # escapes half a surrogate pair, which a hostile answer may hold
