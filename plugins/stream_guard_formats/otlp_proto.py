"""OTLP in its binary form: exports of traces and of logs, as they stand in a topic that a collector writes to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.protobuf.message import DecodeError as BrokenMessage
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from stream_guard import DecodeError, Event, Json, Record
from stream_guard_formats.genai import Raw
from stream_guard_formats.otlp import nanoseconds
from stream_guard_formats.otlp_stream import OtlpStream
from stream_guard_formats.reading import text_at
from stream_guard_formats.stories import LOGGED, LogLine, logged_spans

_DEEPEST = 50


class OtlpProtoDecoder(OtlpStream):
    """Reads one request to export traces, or one to export logs, to a record; the same as its JSON."""

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the events of the spans in time order, or raise DecodeError."""
        record.check_whole()
        if not record.value:
            return []
        traces, broken = _parse(ExportTraceServiceRequest, record.value)
        if traces is not None and all(_has_ids(span) for span in _spans(traces)):
            service = _service(traces.resource_spans)
            return self._stories.tell([_raw(span) for span in _spans(traces)], (), service)
        # The two requests are numbered alike, and read as the wrong one, spans lose their ids.
        logs, _ = _parse(ExportLogsServiceRequest, record.value)
        if logs is None and broken:
            raise DecodeError(f"not an OTLP export in protobuf: {broken}; JSON is otlp-json")
        if logs is None or not all(_is_whole(log) for log in _log_records(logs)):
            raise DecodeError(
                "a span or a log record has no trace id of 16 bytes or no span id of 8; without them it belongs to "
                "nothing"
            )
        told = [_log_line(log) for log in _log_records(logs) if _is_told(log)]
        return self._stories.tell((), list(logged_spans(told)), _service(logs.resource_logs))


def _parse(kind: Any, value: bytes) -> tuple[Any, str]:
    try:
        return kind.FromString(value), ""
    except BrokenMessage as error:
        return None, str(error) or "the bytes end too early or are no protobuf"


def _spans(request: Any) -> Iterator[Any]:
    return (span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans)


def _log_records(request: Any) -> Iterator[Any]:
    return (log for resource in request.resource_logs for scope in resource.scope_logs for log in scope.log_records)


def _service(resources: Iterable[Any]) -> str:
    found = (text_at(_attributes(one.resource.attributes), "service.name") for one in resources)
    return next((name for name in found if name), "")


def _has_ids(holder: Any) -> bool:
    return len(holder.trace_id) == 16 and len(holder.span_id) == 8


def _raw(span: Any) -> Raw:
    return Raw(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        name=span.name[:200],
        start=nanoseconds(span.start_time_unix_nano),
        end=nanoseconds(span.end_time_unix_nano),
        attributes=_attributes(span.attributes),
        failed=span.status.code == 2,
        events=tuple((event.name, _attributes(event.attributes)) for event in span.events),
    )


def _is_whole(log: Any) -> bool:
    """Whether it is a log record, which has a time, and one that belongs to a span if it tells of one."""
    return bool(log.time_unix_nano or log.observed_time_unix_nano) and (_has_ids(log) or not _is_told(log))


def _is_told(log: Any) -> bool:
    return _name(log).startswith(LOGGED)


def _name(log: Any) -> str:
    named = log.event_name or next((one.value.string_value for one in log.attributes if one.key == "event.name"), "")
    return str(named)


def _log_line(log: Any) -> LogLine:
    body = _value(log.body, 0)
    said = _attributes(log.attributes) | (body if isinstance(body, dict) else {})
    time = nanoseconds(log.time_unix_nano) or nanoseconds(log.observed_time_unix_nano)
    return LogLine(log.trace_id.hex(), log.span_id.hex(), _name(log), said, time)


def _attributes(pairs: Iterable[Any], depth: int = 0) -> dict[str, Json]:
    return {pair.key: _value(pair.value, depth) for pair in pairs}


def _value(wrapped: Any, depth: int) -> Json:
    sort = wrapped.WhichOneof("value")
    if sort is None or sort == "bytes_value" or depth > _DEEPEST:
        return None
    if sort == "array_value":
        return [_value(one, depth + 1) for one in wrapped.array_value.values]  # a field of protobuf's
    if sort == "kvlist_value":
        return _attributes(wrapped.kvlist_value.values, depth + 1)
    return getattr(wrapped, sort)
