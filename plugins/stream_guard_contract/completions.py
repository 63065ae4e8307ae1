"""OpenAI chat completions, whole or streamed: reading, applying faults, and writing.

The model's output is not trusted. A field that is missing or of another type reads as empty, and nothing here raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from stream_guard import Json, parse_arguments
from stream_guard_contract.document import LlmFault
from stream_guard_contract.faults import ErrorReply, distort

_STOPS: Final = {"stop": "end_turn", "tool_calls": "tool_use", "function_call": "tool_use", "length": "max_tokens"}
_DONE: Final = b"data: [DONE]\n\n"
_MOST_CALLS: Final = 128  # of one answer; a stream may claim any number


class CompletionCall(msgspec.Struct):
    """A tool call in a completion; the arguments are unparsed text."""

    id: str = ""
    name: str = ""
    arguments: str = ""


class Completion(msgspec.Struct):
    """One answer of a model: the text, the tool calls and the token counts."""

    text: str = ""
    calls: list[CompletionCall] = []
    finish: str = ""
    model: str = ""
    id: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


def read_completion(body: bytes) -> Completion | None:
    """Return the first choice of a completion, or None where the body is not a completion."""
    data = _json(body)
    choices = data.get("choices") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(choices, list):
        return None
    completion = Completion(model=_text(data.get("model")), id=_text(data.get("id")))
    _count(completion, data.get("usage"))
    first = choices[0] if choices and isinstance(choices[0], dict) else {}
    completion.finish = _text(first.get("finish_reason"))
    _add(completion, first.get("message"))
    return completion


def read_stream(body: bytes) -> Completion:
    """Return the completion that the chunks of a stream add up to; other lines are skipped."""
    completion = Completion()
    for line in body.splitlines():
        data = _json(line[5:]) if line.startswith(b"data:") else None
        if not isinstance(data, dict):
            continue
        completion.model = completion.model or _text(data.get("model"))
        completion.id = completion.id or _text(data.get("id"))
        _count(completion, data.get("usage"))
        choices = data.get("choices")
        first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        completion.finish = _text(first.get("finish_reason")) or completion.finish
        _add(completion, first.get("delta"))
    return completion


def distort_completion(completion: Completion, fault: LlmFault) -> Completion | ErrorReply:
    """Return the completion after the fault; it is equal to the input where the fault changes nothing."""
    text = distort(completion.text, fault)
    if isinstance(text, ErrorReply):
        return text
    match fault.mode:
        case "empty" | "garbage":
            return msgspec.structs.replace(completion, text=text, calls=[], finish="stop")
        case "truncated_response":
            finish = completion.finish if text == completion.text else "length"
            return msgspec.structs.replace(completion, text=text, finish=finish)
        case "response_drift" if (fault.drift_type or "json_field_rename") == "json_field_rename":
            # Models write JSON objects as the arguments of tool calls, so fields are renamed there too.
            calls = [
                msgspec.structs.replace(call, arguments=str(distort(call.arguments, fault)))
                for call in completion.calls
            ]
            return msgspec.structs.replace(completion, text=text, calls=calls)
        case _:
            return msgspec.structs.replace(completion, text=text)


def write_completion(completion: Completion) -> bytes:
    """Return the completion as one JSON body."""
    message: dict[str, Json] = {"role": "assistant", "content": completion.text}
    if completion.calls:
        message["tool_calls"] = _calls(completion)
    choice = {"index": 0, "message": message, "finish_reason": completion.finish or "stop"}
    return _encode({**_head(completion, "chat.completion"), "choices": [choice], "usage": _usage(completion)})


def write_stream(completion: Completion) -> Iterator[bytes]:
    """Yield the completion as the chunks of a stream, word by word."""
    head = _head(completion, "chat.completion.chunk")

    def chunk(delta: dict[str, Json], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return b"data: " + _encode({**head, "choices": [choice]}) + b"\n\n"

    yield chunk({"role": "assistant", "content": ""})
    for number, piece in enumerate(completion.text.split(" ")):
        yield chunk({"content": f" {piece}" if number else piece})
    for number, call in enumerate(_calls(completion)):
        yield chunk({"tool_calls": [{"index": number, **call}]})
    yield chunk({}, completion.finish or "stop")
    yield _DONE


def error_body(reply: ErrorReply) -> bytes:
    """Return an error reply as the JSON error that OpenAI clients know."""
    kind = "rate_limit_error" if reply.status == 429 else "server_error"
    code = "rate_limit_exceeded" if reply.status == 429 else None
    return _encode({"error": {"message": reply.body, "type": kind, "param": None, "code": code}})


def to_response(completion: Completion, latency_ms: float) -> dict[str, Json]:
    """Return the completion as the response of a turn."""
    content: list[Json] = [{"type": "text", "text": completion.text}] if completion.text else []
    for call in completion.calls:
        args, _broken = parse_arguments(call.arguments) if call.arguments else ({}, False)
        content.append({"type": "tool_use", "id": call.id, "name": call.name, "input": args})
    stop_reason = _STOPS.get(completion.finish, completion.finish)
    return {
        "model": completion.model,
        "content": content,
        "stop_reason": stop_reason or ("tool_use" if completion.calls else "end_turn"),
        "latency_ms": latency_ms,
        "usage": {"input_tokens": completion.input_tokens, "output_tokens": completion.output_tokens},
    }


def _add(completion: Completion, message: Any) -> None:
    """Add the text and tool calls of a message, or of one chunk of it."""
    if not isinstance(message, dict):
        return
    completion.text += _text(message.get("content"))
    calls = message.get("tool_calls")
    for number, call in enumerate(calls if isinstance(calls, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            continue
        index = call.get("index", number)
        place = index if isinstance(index, int) and 0 <= index < _MOST_CALLS else _MOST_CALLS - 1
        while len(completion.calls) <= place:
            completion.calls.append(CompletionCall())
        target = completion.calls[place]
        target.id = target.id or _text(call.get("id"))
        target.name = target.name or _text(function.get("name"))
        target.arguments += _text(function.get("arguments"))


def _count(completion: Completion, usage: Any) -> None:
    if isinstance(usage, dict):
        completion.input_tokens = _number(usage.get("prompt_tokens"))
        completion.output_tokens = _number(usage.get("completion_tokens"))


def _calls(completion: Completion) -> list[dict[str, Json]]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in completion.calls
    ]


def _head(completion: Completion, kind: str) -> dict[str, Json]:
    return {"id": completion.id or "chatcmpl-0", "object": kind, "created": 0, "model": completion.model}


def _usage(completion: Completion) -> dict[str, int]:
    prompt, answer = completion.input_tokens, completion.output_tokens
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


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
    return json.dumps(value).encode()  # escapes lone surrogates, which a hostile answer may hold
