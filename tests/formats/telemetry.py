"""The session as spans: calls to a model that send the whole history, tools that run, and a sub-agent inside one."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from stream_guard.ports import Record
from tests.formats.renderings import iso, lines
from tests.formats.session import ASK, MODEL, SESSION_ID, STEPS, SUB_RUN, Call, Step, time_of

TRACE = "0af7651916cd43dd8448eb211c80319c"
ROOT = "00000000000000aa"
INNER = "00000000000000bb"  # the span of the sub-agent


class Sketch(NamedTuple):
    """One span before it is written down."""

    span_id: str
    parent: str
    sort: str  # LLM, TOOL or AGENT
    name: str
    start: int
    end: int
    history: tuple[Step, ...] = ()
    step: Step | None = None


def sketches() -> list[Sketch]:
    """Return the spans in the order in which they end, which is the order they are sent in."""
    found = [Sketch(ROOT, "", "AGENT", "helper", 0, len(STEPS)), Sketch(INNER, "", "AGENT", SUB_RUN, 9, 11)]
    started: dict[str, int] = {}
    history: dict[str, list[Step]] = {"": [], SUB_RUN: []}
    for number, step in enumerate(STEPS):
        parent = INNER if step.run else ROOT
        if step.sort == "turn":
            asked = tuple(history[step.run])
            found.append(Sketch(f"{number:016x}", parent, "LLM", "chat", number, number, asked, step))
            started |= {one.call_id: number for one in step.calls}
        elif step.call is not None:
            begun = started[step.call.call_id]
            span_id = f"{number:016x}"
            found.append(Sketch(span_id, parent, "TOOL", step.call.tool, begun, number, (), step))
            if step.call is ASK:
                found[1] = found[1]._replace(parent=span_id)
        history[step.run].append(step)
    return sorted(found, key=lambda one: one.end)


def _openai(step: Step) -> dict[str, Any]:
    if step.sort == "user":
        return {"role": "user", "content": step.text}
    if step.call is not None:
        return {"role": "tool", "tool_call_id": step.call.call_id, "content": step.text}
    return {"role": "assistant", "content": step.text, "tool_calls": [_function(one) for one in step.calls]}


def _function(one: Call) -> dict[str, Any]:
    return {"id": one.call_id, "type": "function", "function": {"name": one.tool, "arguments": json.dumps(one.args)}}


def _parts(step: Step) -> dict[str, Any]:
    """Write a message as the current GenAI conventions do."""
    if step.call is not None:
        response = {"type": "tool_call_response", "id": step.call.call_id, "response": step.text}
        return {"role": "tool", "parts": [response]}
    parts: list[dict[str, Any]] = [{"type": "text", "content": step.text}] if step.text else []
    parts += [{"type": "tool_call", "id": one.call_id, "name": one.tool, "arguments": one.args} for one in step.calls]
    return {"role": "user" if step.sort == "user" else "assistant", "parts": parts}


def langfuse() -> list[bytes]:
    observations = []
    for one in sketches():
        row: dict[str, Any] = {"id": one.span_id, "parentObservationId": one.parent or None, "name": one.name}
        row |= {"startTime": iso(one.start), "endTime": iso(one.end), "level": "DEFAULT", "input": None, "output": None}
        row["type"] = {"LLM": "GENERATION"}.get(one.sort, one.sort)
        if one.sort == "LLM" and one.step is not None:
            row |= {"model": MODEL, "input": json.dumps([_openai(step) for step in one.history])}
            row["output"] = json.dumps(_openai(one.step))
        elif one.step is not None and one.step.call is not None:
            row |= {"input": json.dumps(one.step.call.args), "output": one.step.text}
            row["level"] = "DEFAULT" if one.step.status == "ok" else "ERROR"
        observations.append(row)
    return lines({"trace": {"id": TRACE, "sessionId": SESSION_ID}, "observations": observations})


def current(one: Sketch) -> dict[str, Any]:
    """Return a span's attributes as the current GenAI conventions name them."""
    if one.sort == "AGENT":
        return {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": one.name,
            "gen_ai.conversation.id": SESSION_ID,
        }
    if one.sort == "LLM" and one.step is not None:
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.response.model": MODEL,
            "gen_ai.input.messages": json.dumps([_parts(step) for step in one.history]),
            "gen_ai.output.messages": json.dumps([_parts(one.step)]),
            "gen_ai.usage.input_tokens": 75,
        }
    return {"gen_ai.operation.name": "execute_tool"} | _tool(one)


def _tool(one: Sketch) -> dict[str, Any]:
    assert one.step is not None
    assert one.step.call is not None
    return {
        "gen_ai.tool.name": one.name,
        "gen_ai.tool.call.id": one.step.call.call_id,
        "gen_ai.tool.call.arguments": json.dumps(one.step.call.args),
        "gen_ai.tool.call.result": one.step.text,
    }


def indexed(one: Sketch) -> dict[str, Any]:
    """Return a span's attributes as the oldest generation flattens them: ``gen_ai.prompt.0.role``."""
    if one.sort != "LLM" or one.step is None:
        return current(one)
    found: dict[str, Any] = {"llm.request.type": "chat", "gen_ai.request.model": MODEL}
    for prefix, steps in (("gen_ai.prompt", one.history), ("gen_ai.completion", (one.step,))):
        for number, step in enumerate(steps):
            message = _openai(step)
            for name, value in message.items():
                if name != "tool_calls":
                    found[f"{prefix}.{number}.{name}"] = value
            for place, call in enumerate(step.calls):
                path = f"{prefix}.{number}.tool_calls.{place}"
                found |= {
                    f"{path}.id": call.call_id,
                    f"{path}.name": call.tool,
                    f"{path}.arguments": json.dumps(call.args),
                }
    return found


def flattened(one: Sketch) -> dict[str, Any]:
    """Return a span's attributes as OpenInference names them; a tool's span does not know its call."""
    found: dict[str, Any] = {"openinference.span.kind": one.sort}
    if one.sort == "AGENT":
        return found | {"agent.name": one.name, "session.id": SESSION_ID}
    assert one.step is not None
    if one.step.call is not None:
        args = json.dumps(one.step.call.args)
        return found | {"tool.name": one.name, "input.value": args, "output.value": one.step.text}
    for prefix, steps in (("llm.input_messages", one.history), ("llm.output_messages", (one.step,))):
        for number, step in enumerate(steps):
            message = _openai(step)
            path = f"{prefix}.{number}.message"
            found |= {f"{path}.role": message["role"], f"{path}.contents.0.message_content.text": message["content"]}
            if step.call is not None:
                found[f"{path}.tool_call_id"] = step.call.call_id
            for place, call in enumerate(step.calls):
                inner = f"{path}.tool_calls.{place}.tool_call"
                found |= {f"{inner}.id": call.call_id, f"{inner}.function.name": call.tool}
                found[f"{inner}.function.arguments"] = json.dumps(call.args)
    return found


def failed(one: Sketch) -> bool:
    return one.sort == "TOOL" and one.step is not None and one.step.status != "ok"


def wrap(value: Any) -> dict[str, Any]:
    """Write a value as OTLP's JSON does."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": name, "value": wrap(one)} for name, one in value.items()]}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [wrap(one) for one in value]}}
    return {"stringValue": value}


def otlp_span(one: Sketch, attributes: dict[str, Any]) -> dict[str, Any]:
    return {
        "traceId": TRACE,
        "spanId": one.span_id,
        "parentSpanId": one.parent,
        "name": one.name,
        "startTimeUnixNano": str(int(time_of(one.start) * 1e9)),
        "endTimeUnixNano": str(int(time_of(one.end) * 1e9)),
        "attributes": [{"key": name, "value": wrap(value)} for name, value in attributes.items()],
        "status": {"code": 2} if failed(one) else {},
    }


def otlp(spans: list[dict[str, Any]], logs: list[dict[str, Any]] | None = None) -> list[bytes]:
    export: dict[str, Any] = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}
    if logs is not None:
        export["resourceLogs"] = [{"scopeLogs": [{"logRecords": logs}]}]
    return lines(export)


def otlp_current() -> list[bytes]:
    return otlp([otlp_span(one, current(one)) for one in sketches()])


def otlp_indexed() -> list[bytes]:
    return otlp([otlp_span(one, indexed(one)) for one in sketches()])


def otlp_openinference() -> list[bytes]:
    return otlp([otlp_span(one, flattened(one)) for one in sketches()])


def otlp_events() -> list[bytes]:
    """Write messages as log records, as the middle generation does; the spans of calls to a model have no content."""
    logs = []
    for one in sketches():
        if one.sort == "LLM" and one.step is not None:
            events = [(f"gen_ai.{_openai(step)['role']}.message", _openai(step)) for step in one.history]
            events.append(("gen_ai.choice", {"index": 0, "message": _openai(one.step)}))
            for name, body in events:
                if "tool_call_id" in body:
                    body["id"] = body.pop("tool_call_id")
                at = str(int(time_of(one.start) * 1e9))
                log = {"traceId": TRACE, "spanId": one.span_id, "observedTimeUnixNano": at, "eventName": name}
                logs.append(log | {"body": wrap(body)})
    bare = [otlp_span(one, {k: v for k, v in current(one).items() if "messages" not in k}) for one in sketches()]
    return otlp(bare, logs)


def openinference() -> list[bytes]:
    """Write spans inside spans, as traces are exported."""
    spans: dict[str, dict[str, Any]] = {}
    for one in sketches():
        spans[one.span_id] = {
            "trace_id": TRACE,
            "span_id": one.span_id,
            "parent_span_id": one.parent or None,
            "span_name": one.name,
            "timestamp": iso(one.start),
            "duration": f"PT{(one.end - one.start) // 60}M{(one.end - one.start) % 60}.0S",
            "status_code": "Error" if failed(one) else "Ok",
            "span_attributes": flattened(one),
            "child_spans": [],
        }
    for span in spans.values():
        if span["parent_span_id"]:
            spans[span["parent_span_id"]]["child_spans"].append(span)
    return lines({"trace_id": TRACE, "spans": [span for span in spans.values() if not span["parent_span_id"]]})


def otlp_proto() -> list[bytes]:
    """Write the spans with OpenTelemetry's own messages, in which ids are bytes."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for one in sketches():
        span = spans.add(name=one.name, trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(one.span_id))
        span.parent_span_id = bytes.fromhex(one.parent)
        span.start_time_unix_nano, span.end_time_unix_nano = int(time_of(one.start) * 1e9), int(time_of(one.end) * 1e9)
        span.status.code = 2 if failed(one) else 0
        for name, value in current(one).items():
            pair = span.attributes.add(key=name)
            if isinstance(value, int):
                pair.value.int_value = value
            else:
                pair.value.string_value = value
    return [request.SerializeToString()]


class Refused:
    """Dead letters, as the list of their reasons."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def add(self, record: Record, reason: str) -> None:
        self.reasons.append(reason)
