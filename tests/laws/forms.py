"""One session told in several forms: as turns with tool-use blocks, as calls, as both, as chat messages, as spans."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from stream_guard.judge.model import Event, Turn
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.settings import PluginSettings
from stream_guard.testing import events as events_of

Item: TypeAlias = dict[str, Any]
Session: TypeAlias = list[Item]

START: Final = 1_767_571_200.0  # a midnight, so that days begin where they did
_HEADER: Final = ("at", "run", "agent", "labels")
_DECODERS: Final = build_registry(PluginSettings(allow=("formats",))).decoders


def session_of(trace: Iterable[Mapping[str, Any]]) -> Session:
    """Return what a trace in shorthand tells: turns that list their calls, and results that say which call they answer.

    A call without a turn gets a turn of its own, and so does a result without a call. A result without an output gets
    one, and a run without an agent.
    """
    session: Session = []
    ids: dict[str, str] = {}  # of the latest call under an id of the trace, and of the latest of a tool
    made = 0

    def named(tool: str, trace_id: str, args: Any) -> Item:
        nonlocal made
        made += 1
        ids[trace_id or f"tool {tool}"] = ids[f"tool {tool}"] = call_id = f"call_{made}"
        return {"tool": tool, "args": args, "id": call_id}

    for given in trace:
        item = dict(given) | ({"at": START + given["at"]} if given.get("at") is not None else {})
        if "run" in item:
            item.setdefault("agent", "sub-agent")
        header: Item = {name: item[name] for name in _HEADER if name in item}
        if "call" in item:
            session.append(
                {"turn": None, "calls": [named(item["call"], item.get("id", ""), item.get("args", {}))], **header}
            )
        elif "turn" in item:
            blocks = [{"tool": one} if isinstance(one, str) else one for one in item.pop("calls", [])]
            calls = [named(one["tool"], one.get("id", ""), one.get("args", {})) for one in blocks]
            session.append({**item, "calls": calls})
        elif "result" in item:
            trace_id = item.get("id", "")
            if not trace_id or trace_id not in ids:
                session.append({"turn": None, "calls": [named(item["result"], trace_id, {})], **header})
            item.setdefault("output", "done" if item.get("status", "ok") == "ok" else "Error: it was not done")
            session.append({**item, "id": ids[trace_id or f"tool {item['result']}"]})
        elif "decision" in item:
            session.append({**item, "id": ids.get(item.get("id", ""), "")})
        else:
            session.append(item)
    return session


def timed(session: Session) -> Session:
    """Return the session with a time for everything; what a person wrote has the time of the answer."""
    now, told = START, []
    for item in session:
        now = item.get("at", now + 1)
        told.append({**item, "at": now})
    for place in range(len(told) - 2, -1, -1):
        if "user" in told[place] and ("turn" in told[place + 1] or "user" in told[place + 1]):
            told[place]["at"] = told[place + 1]["at"]
    return told


def as_events(session: Iterable[Item]) -> list[Event]:
    """Return the events of a session in shorthand; a turn has the request that is written, and no other."""
    items = list(session)
    told = events_of(items)
    return [
        replace(event, request=item.get("request")) if isinstance(event, Turn) else event
        for item, event in zip(items, told, strict=True)
    ]


def in_blocks(session: Session) -> list[Event]:
    """Turns list their calls."""
    return as_events(session)


def block_first(session: Session) -> list[Event]:
    """Turns list their calls, and each call is an event too, behind its turn."""
    return as_events(one for item in session for one in (item, *_calls_of(item)))


def call_first(session: Session) -> list[Event]:
    """Turns list their calls, and each call is an event too, before its turn."""
    return as_events(one for item in session for one in (*_calls_of(item), item))


def announced(session: Session) -> list[Event]:
    """Turns list no calls, and say by their stop reason that some follow, as events of their own."""
    told: Session = []
    for item in session:
        calls = _calls_of(item)
        told += [{"stop": "tool_use", **item, "calls": []} if calls else item, *calls]
    return as_events(told)


def calls_alone(session: Session) -> list[Event]:
    """There are no turns: calls and results are events of their own."""
    return as_events(one for item in session for one in (_calls_of(item) if "turn" in item else [item]))


def _calls_of(item: Item) -> Session:
    header: Item = {name: item[name] for name in _HEADER if name in item}
    return [{"call": one["tool"], "args": one["args"], "id": one["id"], **header} for one in item.get("calls", ())]


def as_chat(session: Session) -> list[Event]:
    """The messages of an OpenAI chat, read by its decoder."""
    request: Item = next((item["request"] for item in session if item.get("request")), Item())
    record: Item = {"session_id": "s"} | {name: request[name] for name in ("tools", "system") if name in request}
    record["messages"] = [message for item in session if (message := _message(item)) is not None]
    return _decoded("openai-chat", record)


def _message(item: Item) -> Item | None:
    if "user" in item:
        return {"role": "user", "content": item["user"]}
    if "result" in item:
        return {"role": "tool", "tool_call_id": item["id"], "content": _text(item.get("output"))}
    if "turn" not in item:
        return None
    calls = [
        {"id": one["id"], "type": "function", "function": {"name": one["tool"], "arguments": json.dumps(one["args"])}}
        for one in item["calls"]
    ]
    return {"role": "assistant", "content": item["turn"]} | ({"tool_calls": calls} if calls else {})


def _text(output: Any) -> str | None:
    return output if output is None or isinstance(output, str) else json.dumps(output)


Attributes: TypeAlias = Callable[[Item, Session], dict[str, Any]]


def as_otlp(session: Session) -> list[Event]:
    """Spans that are named as OpenTelemetry does today, read by the decoder of OTLP."""
    return _as_spans(session, _current)


def as_openinference(session: Session) -> list[Event]:
    """Spans that are named as OpenInference does, read by the decoder of OTLP."""
    return _as_spans(session, _flattened)


def _as_spans(session: Session, attributes: Attributes) -> list[Event]:
    spans: list[Item] = []
    called: dict[str, tuple[Item, Item]] = {}
    session = timed(session)
    for place, item in enumerate(session):
        number = f"{place + 1:016x}"
        if "turn" in item:
            spans.append(_span(number, "chat", item["at"], item, attributes(item, session[:place])))
            called |= {one["id"]: (item, one) for one in item["calls"]}
        elif "result" in item:
            turn, call = called[item["id"]]
            tool = {**item, "call": call["tool"], "args": call["args"]}
            spans.append(_span(number, call["tool"], turn["at"], item, attributes(tool, [])))
    export = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}
    return _decoded("otlp-json", export)


def _span(number: str, name: str, start: float, item: Item, attributes: dict[str, Any]) -> Item:
    response = item.get("response", {})
    latency, error = response.get("latency_ms", 0), response.get("error", "")
    failed = error or item.get("status", "ok") != "ok"
    return {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": number,
        "parentSpanId": "",
        "name": name,
        "startTimeUnixNano": str(int(start) * 10**9),
        "endTimeUnixNano": str(int(item["at"]) * 10**9 + int(latency * 10**6)),
        "attributes": [
            {"key": key, "value": _wrapped(value)} for key, value in attributes.items() if value is not None
        ],
        "status": {"code": 2, "message": error} if failed else {},
    }


def _wrapped(value: Any) -> Item:
    if isinstance(value, int | float):
        return {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value}
    return {"arrayValue": {"values": [*map(_wrapped, value)]}} if isinstance(value, list) else {"stringValue": value}


def _current(item: Item, before: Session) -> dict[str, Any]:
    """Return a span's attributes as the current GenAI conventions name them."""
    found = {"gen_ai.conversation.id": "s", "gen_ai.agent.name": item.get("agent"), "agent_id": item.get("run")}
    if "call" in item:
        return found | {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": item["call"],
            "gen_ai.tool.call.id": item["id"],
            "gen_ai.tool.call.arguments": json.dumps(item["args"]),
            "gen_ai.tool.call.result": _text(item.get("output")),
        }
    request, usage = item.get("request") or {}, item.get("usage", {})
    return found | {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps([_parts(one) for one in before if _message(one) is not None]),
        "gen_ai.output.messages": json.dumps([_parts(item)]),
        "gen_ai.response.finish_reasons": [item.get("stop", "tool_use" if item["calls"] else "end_turn")],
        "gen_ai.system_instructions": request.get("system"),
        "gen_ai.tool.definitions": json.dumps(request["tools"]) if "tools" in request else None,
        **{f"gen_ai.usage.{name}": value for name, value in usage.items()},
    }


def _parts(item: Item) -> Item:
    if "result" in item:
        part = {"type": "tool_call_response", "id": item["id"], "response": _text(item.get("output"))}
        return {"role": "tool", "parts": [part]}
    text = item.get("user", item.get("turn"))
    parts = [{"type": "text", "content": text}] if text else []
    parts += [
        {"type": "tool_call", "id": one["id"], "name": one["tool"], "arguments": one["args"]}
        for one in item.get("calls", ())
    ]
    return {"role": "user" if "user" in item else "assistant", "parts": parts}


def _flattened(item: Item, before: Session) -> dict[str, Any]:
    """Return a span's attributes as OpenInference names them."""
    found = {"session.id": "s", "agent.name": item.get("agent"), "agent_id": item.get("run")}
    if "call" in item:
        found |= {"openinference.span.kind": "TOOL", "tool.name": item["call"], "tool_call.id": item["id"]}
        return found | {"input.value": json.dumps(item["args"]), "output.value": _text(item.get("output"))}
    found["openinference.span.kind"] = "LLM"
    for prefix, items in (("llm.input_messages", before), ("llm.output_messages", [item])):
        messages = [message for one in items if (message := _message(one)) is not None]
        for number, message in enumerate(messages):
            path = f"{prefix}.{number}.message"
            found |= {f"{path}.role": message["role"], f"{path}.content": message["content"]}
            found[f"{path}.tool_call_id"] = message.get("tool_call_id")
            for place, call in enumerate(message.get("tool_calls", ())):
                inner = f"{path}.tool_calls.{place}.tool_call"
                found |= {f"{inner}.id": call["id"], f"{inner}.function.name": call["function"]["name"]}
                found[f"{inner}.function.arguments"] = call["function"]["arguments"]
    for name, attribute in _USAGE.items():
        found[attribute] = item.get("usage", {}).get(name)
    return found


_USAGE: Final = {
    "input_tokens": "llm.token_count.prompt",
    "output_tokens": "llm.token_count.completion",
    "cache_read_tokens": "llm.token_count.prompt_details.cache_read",
    "thinking_tokens": "llm.token_count.completion_details.reasoning",
    "cost_usd": "llm.cost.total",
}


def _decoded(form: str, record: Item) -> list[Event]:
    return list(_DECODERS[form]().decode(Record(json.dumps(record).encode(), "forms", 0)))
