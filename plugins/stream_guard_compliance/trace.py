"""Events from what callers have of a trace: events of the compliance API, native events, or chat messages.

An event that cannot be read is listed with its place. It never counts as an event that did not happen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

import msgspec

from stream_guard import Event, Json, ToolCall, ToolResult, Turn, UserMessage, parse_arguments
from stream_guard_compliance.reading.catalogue import ToolDeclaration, declarations
from stream_guard_compliance.results import NotEvaluated

SESSION: Final = "trace"
_EVENT_TYPES: Final = get_args(Event)
_ERROR_PREFIXES: Final = ("error:", "error ", "exception:", "traceback (most recent")


class UnreadableEventError(ValueError):
    """A trace event lacks what an event needs."""


@dataclass(slots=True)
class Trace:
    """The events of one trace, and what could not be read."""

    events: list[Event] = field(default_factory=list)
    unreadable: list[NotEvaluated] = field(default_factory=list)
    declared: list[ToolDeclaration] = field(default_factory=list)  # tools that a request declares

    @property
    def tools(self) -> list[str]:
        """The tools that were declared or tried, in order."""
        seen = [event.tool for event in self.events if isinstance(event, ToolCall)]
        for event in self.events:
            if isinstance(event, Turn):
                seen += [block["name"] for block in _blocks(event) if isinstance(block.get("name"), str)]
        return list(dict.fromkeys([*declarations(self.declared), *seen]))

    @property
    def has_results(self) -> bool:
        """Whether results of calls are recorded at all."""
        return any(isinstance(event, ToolResult) for event in self.events)


def read_trace(trace_events: Iterable[Any]) -> Trace:
    """Return the trace; event ``event-3`` is the fourth of ``trace_events``, whatever its shape."""
    trace = Trace()
    for index, raw in enumerate(trace_events):
        try:
            event = _read(raw, index, trace)
        except UnreadableEventError as reason:
            trace.unreadable.append(NotEvaluated(what=f"event {index}", reason=str(reason)))
        else:
            if event is not None:
                trace.events.append(event)
    return trace


def event_index(event_id: str) -> int | None:
    """Return the place in ``trace_events`` of the event with this id."""
    number = event_id.removeprefix("event-").split("/", 1)[0]
    return int(number) if number.isdigit() else None


def _read(raw: Any, index: int, trace: Trace) -> Event | None:
    if isinstance(raw, _EVENT_TYPES):
        return _renamed(msgspec.to_builtins(raw), index)
    if not isinstance(raw, Mapping):
        raise UnreadableEventError(f"an event is an object, not {type(raw).__name__}")
    word = raw.get("type", raw.get("kind", raw.get("role")))
    if not isinstance(word, str):
        raise UnreadableEventError(
            'the event has no "type"; write user_message, agent_message, tool_call or tool_result'
        )
    if "kind" in raw and "type" not in raw and "session_id" in raw:
        return _renamed(dict(raw), index)
    reader = _READERS.get(word.lower())
    if reader is None:
        raise UnreadableEventError(
            f'"{word[:60]}" is no type that is known; write user_message, agent_message, tool_call or tool_result'
        )
    return reader(raw, f"event-{index}", trace)


def _renamed(data: dict[str, Json], index: int) -> Event:
    """Return a native event under the id that its place gives it."""
    data["event_id"], data["session_id"] = f"event-{index}", SESSION
    data.pop("index", None)
    data.pop("attempt", None)
    try:
        event: Event = msgspec.convert(data, type=Event)
    except (msgspec.ValidationError, ValueError) as error:
        raise UnreadableEventError(f"not a native event: {error}") from None
    return event


def _text(raw: Mapping[str, Any]) -> str:
    content = raw.get("content", raw.get("text", raw.get("message")))
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [block["text"] for block in blocks if isinstance(block, Mapping) and isinstance(block.get("text"), str)]
    return "\n".join(texts)


def _head(raw: Mapping[str, Any], event_id: str) -> dict[str, Any]:
    agent = raw.get("agent", raw.get("agent_name"))
    head: dict[str, Any] = {"session_id": SESSION, "event_id": event_id}
    return {**head, "agent": agent} if isinstance(agent, str) else head


def _user(raw: Mapping[str, Any], event_id: str, _trace: Trace) -> Event:
    return UserMessage(text=_text(raw), **_head(raw, event_id))


def _agent(raw: Mapping[str, Any], event_id: str, _trace: Trace) -> Event:
    text = _text(raw)
    content: list[Json] = [{"type": "text", "text": text}] if text else []
    calls = raw.get("tool_calls")
    content += [_block(call) for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    blocks = raw.get("content")
    content += [dict(block) for block in blocks if _is_use(block)] if isinstance(blocks, list) else []
    uses = any(block["type"] == "tool_use" for block in content)
    response = {"content": content, "stop_reason": "tool_use" if uses else "end_turn"}
    return Turn(request=None, response=response, **_head(raw, event_id))


def _is_use(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "tool_use" and isinstance(block.get("name"), str)


def _block(call: Mapping[str, Any]) -> dict[str, Json]:
    inner = call.get("function")
    function: Mapping[str, Any] = inner if isinstance(inner, Mapping) else call
    name, args, call_id = function.get("name"), function.get("arguments", function.get("args")), call.get("id")
    if isinstance(args, str):
        args, _ = parse_arguments(args)
    block: dict[str, Json] = {"type": "tool_use", "name": name if isinstance(name, str) else "", "input": _plain(args)}
    return {**block, "id": call_id} if isinstance(call_id, str) else block


def _call(raw: Mapping[str, Any], event_id: str, _trace: Trace) -> Event:
    name = raw.get("name", raw.get("tool", raw.get("tool_name")))
    if not isinstance(name, str) or not name:
        raise UnreadableEventError('a tool_call needs the "name" of its tool')
    args = raw.get("args", raw.get("arguments", raw.get("input", {})))
    failed = False
    if isinstance(args, str):
        args, failed = parse_arguments(args)
    return ToolCall(tool=name, call_id=_call_id(raw), args=_plain(args), parse_error=failed, **_head(raw, event_id))


def _result(raw: Mapping[str, Any], event_id: str, _trace: Trace) -> Event:
    name = raw.get("name", raw.get("tool", raw.get("tool_name", "")))
    output = raw.get("content", raw.get("output", raw.get("result")))
    return ToolResult(
        tool=name if isinstance(name, str) else "",
        call_id=_call_id(raw),
        status=_status(raw, output),
        output=_plain(output),
        **_head(raw, event_id),
    )


def _status(raw: Mapping[str, Any], output: Any) -> Any:
    status = raw.get("status")
    if status in {"ok", "error", "blocked"}:
        return status
    looks_failed = isinstance(output, str) and output.lstrip()[:40].lower().startswith(_ERROR_PREFIXES)
    return (
        "error" if raw.get("error") or raw.get("is_error") or status in {"failed", "failure"} or looks_failed else "ok"
    )


def _call_id(raw: Mapping[str, Any]) -> str:
    call_id = raw.get("call_id", raw.get("tool_call_id", raw.get("tool_use_id", raw.get("id"))))
    return call_id if isinstance(call_id, str) else ""


def _plain(value: Any) -> Json:
    """Return a value as JSON has it; what JSON cannot say becomes its text."""
    try:
        return json.loads(json.dumps(value, default=str))
    except (TypeError, ValueError, RecursionError):
        raise UnreadableEventError("the arguments or the result are nested too deep, or are no JSON") from None


def _system(raw: Mapping[str, Any], _event_id: str, trace: Trace) -> None:
    """Rules come from the prompt that was handed over, never from the trace; declared tools are taken."""
    tools = raw.get("tools")
    trace.declared += [tool for tool in (tools if isinstance(tools, list) else []) if isinstance(tool, Mapping)]


def _blocks(turn: Turn) -> list[dict[str, Json]]:
    content = turn.response.get("content")
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_use"]


_READERS: Final[dict[str, Callable[[Mapping[str, Any], str, Trace], Event | None]]] = {
    **dict.fromkeys(("user_message", "user", "human"), _user),
    **dict.fromkeys(("agent_message", "assistant_message", "assistant", "agent", "ai"), _agent),
    **dict.fromkeys(("tool_call", "tool_use", "function_call"), _call),
    **dict.fromkeys(("tool_result", "tool", "tool_response", "function"), _result),
    **dict.fromkeys(("system", "developer", "system_message"), _system),
}
