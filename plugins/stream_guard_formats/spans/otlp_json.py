"""OTLP as JSON: exports of traces and of logs."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Final

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record
from stream_guard_formats.conversation import MAX_ID
from stream_guard_formats.reading import as_object, number_in, object_at, objects_in, text_at
from stream_guard_formats.spans.log_records import AgentLogRecord, is_about_agents, log_name, logged_spans, trace_of_log
from stream_guard_formats.spans.raw_spans import RawSpan, SpanKind
from stream_guard_formats.spans.stitching import OtlpDecoder

_LATEST: Final = 253_402_300_800.0
_KINDS: Final[dict[str, SpanKind]] = {
    "2": "server",
    "SPAN_KIND_SERVER": "server",
    "3": "client",
    "SPAN_KIND_CLIENT": "client",
}


class OtlpJsonDecoder(OtlpDecoder, JsonDecoder):
    """Reads ``resourceSpans`` and ``resourceLogs``, one request or a file exporter's line to a record."""

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is an export of traces or of logs."""
        if not isinstance(data, dict):
            return 0.0
        traces, logs = object_at(data, "traces"), object_at(data, "logs")
        is_export = any("resourceSpans" in one for one in (data, traces)) or any(
            "resourceLogs" in one for one in (data, logs)
        )
        return 1.0 if is_export else 0.0

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the spans in time order, or raise DecodeError."""
        export = as_object(data, "an OTLP export")
        traces, logs = object_at(export, "traces") or export, object_at(export, "logs") or export
        if "resourceSpans" not in traces and "resourceLogs" not in logs:
            raise DecodeError('the export has neither "resourceSpans" nor "resourceLogs"; metrics have no events')
        logged = list(logged_spans(_agent_logs(logs)))
        return self._sessions.read(list(_spans(traces)), logged, _service_of_logs(logs) if logged else "", record)


def _service_of_logs(data: dict[str, Json]) -> str:
    names = map(_service, objects_in(data, "resourceLogs", "resources"))
    return next((name for name in names if name), "")


def _service(resource: dict[str, Json]) -> str:
    return text_at(attributes_of(object_at(resource, "resource")), "service.name")


def _spans(data: dict[str, Json]) -> Iterator[RawSpan]:
    for resource in objects_in(data, "resourceSpans", "resources"):
        service = _service(resource)
        for scope in objects_in(resource, "scopeSpans", "scopes"):
            yield from (_raw_span(span, service) for span in objects_in(scope, "spans", "spans"))


def _raw_span(span: dict[str, Json], service: str) -> RawSpan:
    status = object_at(span, "status")
    events = objects_in(span, "events", "events")
    return RawSpan(
        trace_id=_id(span, "traceId", 16),
        span_id=_id(span, "spanId", 8),
        parent_id=_id(span, "parentSpanId", 8, needed=False),
        name=text_at(span, "name")[:200],
        start=nanoseconds(span.get("startTimeUnixNano")),
        end=nanoseconds(span.get("endTimeUnixNano")),
        attributes=attributes_of(span),
        failed=status.get("code") in (2, "STATUS_CODE_ERROR"),
        events=tuple((text_at(event, "name"), attributes_of(event)) for event in events),
        kind=_KINDS.get(str(span.get("kind")), ""),
        status_message=text_at(status, "message")[:1000],
        service=service,
    )


def _agent_logs(data: dict[str, Json]) -> Iterator[AgentLogRecord]:
    for resource in objects_in(data, "resourceLogs", "resources"):
        for scope in objects_in(resource, "scopeLogs", "scopes"):
            for log in objects_in(scope, "logRecords", "log records"):
                attributes = attributes_of(log)
                body = value_of(log.get("body"))
                name = log_name(text_at(log, "eventName"), body, attributes)
                if is_about_agents(name):
                    fields = attributes | (body if isinstance(body, dict) else {})
                    time = nanoseconds(log.get("timeUnixNano")) or nanoseconds(log.get("observedTimeUnixNano"))
                    # Without a trace, a record may still name its session.
                    session_trace = "" if log.get("traceId") else trace_of_log(fields)
                    trace_id = session_trace or _id(log, "traceId", 16)
                    yield AgentLogRecord(trace_id, _id(log, "spanId", 8, needed=not session_trace), name, fields, time)


def attributes_of(holder: dict[str, Json]) -> dict[str, Json]:
    """Return the attributes, a list of keys and typed values, as a plain object."""
    found: dict[str, Json] = {}
    for pair in objects_in(holder, "attributes", "attributes"):
        if isinstance(name := pair.get("key"), str):
            found[name] = value_of(pair.get("value"))
    return found


def value_of(wrapped: Json) -> Json:
    """Return the value inside a typed value. OTLP's JSON writes 64-bit numbers as texts."""
    if not isinstance(wrapped, dict):
        return wrapped
    if len(wrapped) == 1 and (text := wrapped.get("stringValue")) is not None:  # most values are texts
        return text
    if "intValue" in wrapped:
        number = number_in(wrapped["intValue"])
        return None if number is None else int(number)
    if isinstance(array := wrapped.get("arrayValue"), dict):
        values = array.get("values")
        return [value_of(value) for value in values] if isinstance(values, list) else []
    if isinstance(pairs := wrapped.get("kvlistValue"), dict):
        return attributes_of({"attributes": pairs.get("values")})
    return next((wrapped[name] for name in ("stringValue", "boolValue", "doubleValue") if name in wrapped), None)


def nanoseconds(written: Json) -> float | None:
    """Return nanoseconds since 1970 as seconds, or None where the value is no time."""
    number = number_in(written)
    return number / 1e9 if number and 0.0 < number / 1e9 < _LATEST else None


def _id(holder: dict[str, Json], field: str, size: int, *, needed: bool = True) -> str:
    """Return an id in hex. OTLP's JSON writes hex; naive dumps of the binary form have base64."""
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
