"""OTLP as JSON: exports of traces and of logs, with the GenAI attributes of any generation."""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

from stream_guard import DecodeError, Event, Json, Record
from stream_guard_formats.conversation import MAX_ID, Conversation, label
from stream_guard_formats.genai import Raw, messages_of, read_span, session_of, sort_of
from stream_guard_formats.reading import number_at, object_at, objects_in, read_object, text_at
from stream_guard_formats.spans import Telling

_LATEST: Final = 253_402_300_800.0
_REMEMBERED: Final = 10_000
_DETAILS: Final = "gen_ai.client.inference.operation.details"


class OtlpStories:
    """Makes sessions of spans: one for each conversation that a span names, or for each trace where none does.

    Which conversation a trace belongs to is remembered, for the last 10,000 traces: a later record may not say so.
    So are the spans whose content came in log records: the span itself, which has none, then tells nothing.
    """

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, str] = OrderedDict()
        self._in_logs: OrderedDict[str, bool] = OrderedDict()

    def tell(self, spans: Sequence[Raw], logs: Sequence[Raw], service: str) -> list[Event]:
        """Return the events of a record's spans and log records, session by session."""
        for raw in (*spans, *logs):
            if session_id := session_of(raw.attributes):
                _remember(self._sessions, raw.trace_id, session_id)
        for raw in logs:
            _remember(self._in_logs, raw.span_id, True)
        # A span that log records of the same export tell of gets what they say; others are told as they are.
        said = {raw.span_id: raw.attributes for raw in logs}
        whole = [raw._replace(attributes=raw.attributes | said.pop(raw.span_id, {})) for raw in spans]
        alone = [raw for raw in logs if raw.span_id in said]
        stories: dict[str, list[Raw]] = {}
        for raw in (*(one for one in whole if not self._is_told(one)), *alone):
            stories.setdefault(self._sessions.get(raw.trace_id, raw.trace_id), []).append(raw)
        events: list[Event] = []
        for session_id, raws in stories.items():
            conversation = Conversation(session_id, labels={"service": label(service)} if service else None)
            events += Telling(conversation).tell([read_span(raw) for raw in raws])
        return events

    def _is_told(self, raw: Raw) -> bool:
        span = read_span(raw) if raw.span_id in self._in_logs else None
        return span is not None and span.inputs is None and span.outputs is None


class OtlpJsonDecoder:
    """Reads ``resourceSpans`` and ``resourceLogs``, one request or a file exporter's line to a record."""

    def __init__(self, *, strict_keys: bool = True) -> None:
        self._strict = strict_keys
        self._stories = OtlpStories()

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the events of the spans in time order, or raise DecodeError."""
        data = read_object(record, "an OTLP export", strict_keys=self._strict)
        if data is None:
            return []
        traces, logs = object_at(data, "traces") or data, object_at(data, "logs") or data
        if "resourceSpans" not in traces and "resourceLogs" not in logs:
            raise DecodeError('the export has neither "resourceSpans" nor "resourceLogs"; metrics have no events')
        spans: list[Raw] = []
        service = ""
        for resource in objects_in(traces, "resourceSpans", "resources"):
            service = service or text_at(attributes_of(object_at(resource, "resource")), "service.name")
            for scope in objects_in(resource, "scopeSpans", "scopes"):
                spans += [_span(span) for span in objects_in(scope, "spans", "spans")]
        return self._stories.tell(spans, list(_logs(logs)), service)


def _span(span: dict[str, Json]) -> Raw:
    status = object_at(span, "status").get("code")
    events = objects_in(span, "events", "events")
    return Raw(
        trace_id=_id(span, "traceId", 16),
        span_id=_id(span, "spanId", 8),
        parent_id=_id(span, "parentSpanId", 8, needed=False),
        name=text_at(span, "name")[:200],
        start=nanoseconds(span.get("startTimeUnixNano")),
        end=nanoseconds(span.get("endTimeUnixNano")),
        attributes=attributes_of(span),
        failed=status in (2, "STATUS_CODE_ERROR"),
        events=tuple((text_at(event, "name"), attributes_of(event)) for event in events),
    )


def _logs(data: dict[str, Json]) -> Iterator[Raw]:
    """Yield, for each span that log records tell of, one span with what they say."""
    by_span: dict[tuple[str, str], list[tuple[str, dict[str, Json], float | None]]] = {}
    for resource in objects_in(data, "resourceLogs", "resources"):
        for scope in objects_in(resource, "scopeLogs", "scopes"):
            for log in objects_in(scope, "logRecords", "log records"):
                attributes = attributes_of(log)
                name = text_at(log, "eventName") or text_at(attributes, "event.name")
                if name.startswith("gen_ai."):
                    body = value_of(log.get("body"))
                    said = attributes | (body if isinstance(body, dict) else {})
                    time = nanoseconds(log.get("timeUnixNano")) or nanoseconds(log.get("observedTimeUnixNano"))
                    key = (_id(log, "traceId", 16), _id(log, "spanId", 8))
                    by_span.setdefault(key, []).append((name, said, time))
    for (trace_id, span_id), said_there in by_span.items():
        yield from logged_span(trace_id, span_id, said_there)


def logged_span(
    trace_id: str, span_id: str, said: Sequence[tuple[str, dict[str, Json], float | None]]
) -> Iterator[Raw]:
    """Yield the span that log records tell of, unless they only hold what the span says itself."""
    attributes = next((body for name, body, _ in said if name == _DETAILS), None)
    if attributes is None:
        inputs, outputs = messages_of((name, body) for name, body, _ in said)
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": inputs,
            "gen_ai.output.messages": outputs,
        }
        for _, body, _ in said:
            attributes |= {name: body[name] for name in body if name.startswith("gen_ai.") or name == "session.id"}
        if reason := next((text_at(body, "finish_reason") for name, body, _ in said if name == "gen_ai.choice"), ""):
            attributes["gen_ai.response.finish_reasons"] = [reason]
    has_content = any(attributes.get(name) for name in ("gen_ai.input.messages", "gen_ai.output.messages"))
    times = [time for _, _, time in said if time is not None]
    start, end = (min(times), max(times)) if times else (None, None)
    if has_content and sort_of(attributes) == "llm":
        yield Raw(trace_id, span_id, "", "", start, end, attributes)


def attributes_of(holder: dict[str, Json]) -> dict[str, Json]:
    """Return a list of keys and typed values as a plain object."""
    found: dict[str, Json] = {}
    for pair in objects_in(holder, "attributes", "attributes"):
        if isinstance(name := pair.get("key"), str):
            found[name] = value_of(pair.get("value"))
    return found


def value_of(wrapped: Json) -> Json:
    """Return what a typed value holds; 64-bit numbers are texts in OTLP's JSON."""
    if not isinstance(wrapped, dict):
        return wrapped
    if "intValue" in wrapped:
        number = number_at(wrapped, "intValue")
        return None if number is None else int(number)
    if isinstance(array := wrapped.get("arrayValue"), dict):
        values = array.get("values")
        return [value_of(one) for one in values] if isinstance(values, list) else []
    if isinstance(pairs := wrapped.get("kvlistValue"), dict):
        return attributes_of({"attributes": pairs.get("values")})
    return next((wrapped[name] for name in ("stringValue", "boolValue", "doubleValue") if name in wrapped), None)


def nanoseconds(written: Json) -> float | None:
    """Return nanoseconds since 1970 as seconds, or None where that is no time."""
    number = number_at({"at": written}, "at")
    return number / 1e9 if number and 0.0 < number / 1e9 < _LATEST else None


def _id(holder: dict[str, Json], field: str, size: int, *, needed: bool = True) -> str:
    """Return an id in hex, as OTLP's JSON has it; naive dumps of the binary form have base64."""
    found = holder.get(field)
    if isinstance(found, str) and found:
        if len(found) == size * 2:
            return found.lower()
        try:
            raw = base64.b64decode(found, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        return raw.hex() if len(raw) == size else found[:MAX_ID]
    if needed:
        raise DecodeError(f'a span or a log record has no "{field}"; without it, it belongs to nothing')
    return ""


def _remember(memory: OrderedDict[str, Json], key: str, value: Json) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > _REMEMBERED:
        memory.popitem(last=False)
