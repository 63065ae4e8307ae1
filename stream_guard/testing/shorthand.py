"""Traces in few words: ``[{"call": "refund"}, {"end": "closed"}]`` instead of twenty lines of events; and an alert."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stream_guard.judge.model import (
    Alert,
    Event,
    GateDecision,
    Json,
    SessionEnd,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)

_HEADER = {"session": "session_id", "at": "time", "run": "run_id", "agent": "agent", "labels": "labels"}
_SAME = ("event_id", "captured", "part", "trace_id")


def events(trace: Iterable[Mapping[str, Json]], session: str = "s") -> list[Event]:
    """Return the events a shorthand trace stands for; an unknown key is an error that names it."""
    made = []
    for position, item in enumerate(trace):
        kind = next((key for key in _MAKERS if key in item), None)
        if kind is None:
            raise ValueError(f"item {position} of the trace has none of {', '.join(_MAKERS)}: {dict(item)!r}")
        rest = {key: value for key, value in item.items() if key != kind}
        header: dict[str, Any] = {"session_id": session, "event_id": f"{session}-{position}"}
        header |= {name: rest.pop(key) for key, name in _HEADER.items() if key in rest}
        header |= {key: rest.pop(key) for key in _SAME if key in rest}
        if header.get("time") is not None:
            header["time"] = float(header["time"])
        event = _MAKERS[kind](item[kind], rest, header)
        if rest:
            raise ValueError(f"item {position} of the trace: unknown keys {', '.join(sorted(rest))}")
        made.append(event)
    return made


def calls(*tools: str) -> list[dict[str, Json]]:
    """Return the trace of a session that only calls tools."""
    return [{"call": tool} for tool in tools]


def turns(*texts: str) -> list[dict[str, Json]]:
    """Return the trace of a session in which the agent only talks."""
    return [{"turn": text} for text in texts]


def _call(tool: Json, rest: dict[str, Json], header: dict[str, Any]) -> Event:
    return ToolCall(tool=tool, args=rest.pop("args", {}), call_id=rest.pop("id", ""), **header)


def _result(tool: Json, rest: dict[str, Json], header: dict[str, Any]) -> Event:
    fields = {key: rest.pop(key) for key in ("status", "output", "latency_ms") if key in rest}
    return ToolResult(tool=tool, call_id=rest.pop("id", ""), **fields, **header)


def _user(text: Json, _rest: dict[str, Json], header: dict[str, Any]) -> Event:
    return UserMessage(text=text, **header)


def _decision(action: Json, rest: dict[str, Json], header: dict[str, Any]) -> Event:
    return GateDecision(action=action, call_id=rest.pop("id", ""), tool=rest.pop("tool", ""), **header)


def _end(reason: Json, _rest: dict[str, Json], header: dict[str, Any]) -> Event:
    return SessionEnd(reason=reason, **header)


def _turn(text: Json, rest: dict[str, Json], header: dict[str, Any]) -> Event:
    content: list[Json] = [] if text is None else [{"type": "text", "text": text}]
    for call in rest.pop("calls", []):
        block = {"tool": call} if isinstance(call, str) else call
        made = {"type": "tool_use", "name": block["tool"], "input": block.get("args", {})}
        content.append(made | ({"id": block["id"]} if "id" in block else {}))
    stop = rest.pop("stop", "tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn")
    response = {"content": content, "stop_reason": stop}
    if "usage" in rest:
        response["usage"] = rest.pop("usage")
    response |= rest.pop("response", {})
    request = rest.pop("request", {})
    if request is not None:
        request = {"messages": [{"role": "user", "content": "hello"}], **request}
    return Turn(request=request, response=response, **header)


_MAKERS: dict[str, Callable[[Json, dict[str, Json], dict[str, Any]], Event]] = {
    "call": _call,
    "result": _result,
    "turn": _turn,
    "user": _user,
    "decision": _decision,
    "end": _end,
}


def alert(number: int = 0, **fields: Any) -> Alert:
    """Return an alert with the number as its id; ``fields`` replace what it says."""
    plain = {
        "alert_id": f"{number:032x}",
        "rule_id": "confirm-refunds",
        "kind": "must_call_before",
        "severity": "error",
        "session_id": "s1",
        "event_id": "e1",
        "index": 3,
        "time": 1769860800.0,
        "detail": "refund was called before confirm",
        "policy_version": "v1",
    }
    return Alert(**{**plain, **fields})
