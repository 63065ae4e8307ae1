"""OTLP in its binary form: exports of traces and of logs, as a collector writes them to a topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any, Final, Self

from google.protobuf.message import DecodeError as BrokenMessage
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from stream_guard import DecodeError, Event, Json, Memory, Record
from stream_guard_formats.reading import text_at
from stream_guard_formats.spans.log_records import AgentLogRecord, is_about_agents, log_name, logged_spans, trace_of_log
from stream_guard_formats.spans.otlp_json import OtlpJsonDecoder, nanoseconds
from stream_guard_formats.spans.raw_spans import RawSpan, SpanKind
from stream_guard_formats.spans.stitching import OtlpDecoder

_MAX_DEPTH = 50
_KINDS: Final[dict[int, SpanKind]] = {2: "server", 3: "client"}


class OtlpProtoDecoder(OtlpDecoder):
    """Reads one request to export traces, or one to export logs, to a record. Its JSON gives the same events."""

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the events of the spans in time order, or raise DecodeError."""
        record.check_whole()
        if not record.value:
            return []
        traces, broken = _parse(ExportTraceServiceRequest, record.value)
        if traces is not None and all(_has_ids(span) for span, _ in _spans(traces)):
            return self._sessions.read([_raw_span(span, service) for span, service in _spans(traces)], (), "", record)
        # The fields of both requests have the same numbers. Logs that are parsed as traces give spans without ids.
        logs, _ = _parse(ExportLogsServiceRequest, record.value)
        if logs is None and broken:
            raise DecodeError(f"not an OTLP export in protobuf: {broken}; JSON is otlp-json")
        if logs is None or not all(_is_whole(log) for log in _log_records(logs)):
            raise DecodeError(
                "a span or a log record has no trace id of 16 bytes or no span id of 8; without them it belongs to "
                "nothing"
            )
        about_agents = [_agent_log(log) for log in _log_records(logs) if is_about_agents(_name(log))]
        return self._sessions.read((), list(logged_spans(about_agents)), _service_of_logs(logs), record)


def _parse(kind: Any, value: bytes) -> tuple[Any, str]:
    try:
        return kind.FromString(value), ""
    except BrokenMessage as error:
        return None, str(error) or "the bytes end too early or are no protobuf"


def _spans(request: Any) -> Iterator[tuple[Any, str]]:
    """Yield the spans, each with its service."""
    for resource in request.resource_spans:
        service = _service(resource)
        for scope in resource.scope_spans:
            yield from ((span, service) for span in scope.spans)


def _log_records(request: Any) -> Iterator[Any]:
    return (log for resource in request.resource_logs for scope in resource.scope_logs for log in scope.log_records)


def _service_of_logs(request: Any) -> str:
    return next((name for name in map(_service, request.resource_logs) if name), "")


def _service(resource: Any) -> str:
    return text_at(_attributes(resource.resource.attributes), "service.name")


def _has_ids(holder: Any) -> bool:
    return len(holder.trace_id) == 16 and len(holder.span_id) == 8


def _raw_span(span: Any, service: str) -> RawSpan:
    return RawSpan(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        name=span.name[:200],
        start=nanoseconds(span.start_time_unix_nano),
        end=nanoseconds(span.end_time_unix_nano),
        attributes=_attributes(span.attributes),
        failed=span.status.code == 2,
        events=tuple((event.name, _attributes(event.attributes)) for event in span.events),
        kind=_KINDS.get(span.kind, ""),
        status_message=span.status.message[:1000],
        service=service,
    )


def _is_whole(log: Any) -> bool:
    """Whether a log record has a time and, if it is about an agent, the ids of its span or a session."""
    if not (log.time_unix_nano or log.observed_time_unix_nano):
        return False
    return _has_ids(log) or not is_about_agents(_name(log)) or bool(trace_of_log(_fields(log)))


def _name(log: Any) -> str:
    in_attributes = {pair.key: pair.value.string_value for pair in log.attributes if pair.key == "event.name"}
    return log_name(log.event_name, log.body.string_value, in_attributes)


def _fields(log: Any) -> dict[str, Json]:
    body = _value(log.body, 0)
    return _attributes(log.attributes) | (body if isinstance(body, dict) else {})


def _agent_log(log: Any) -> AgentLogRecord:
    fields = _fields(log)
    time = nanoseconds(log.time_unix_nano) or nanoseconds(log.observed_time_unix_nano)
    return AgentLogRecord(log.trace_id.hex() or trace_of_log(fields), log.span_id.hex(), _name(log), fields, time)


def _attributes(pairs: Iterable[Any], depth: int = 0) -> dict[str, Json]:
    return {pair.key: _value(pair.value, depth) for pair in pairs}


def _value(wrapped: Any, depth: int) -> Json:
    sort = wrapped.WhichOneof("value")
    if sort is None or sort == "bytes_value" or depth > _MAX_DEPTH:
        return None
    if sort == "array_value":
        return [_value(item, depth + 1) for item in wrapped.array_value.values]  # a field of protobuf's
    if sort == "kvlist_value":
        return _attributes(wrapped.kvlist_value.values, depth + 1)
    return getattr(wrapped, sort)


# OTLP in either encoding, as a receiver takes it in: each export says which it is.


_JSON: Final = b"application/json"


class OtlpExportsDecoder(OtlpDecoder):
    """Reads exports in protobuf and in JSON. The header ``content-type`` names the encoding, else the first byte does.

    Spans of one trace may come in both encodings: both decoders use the same sessions.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._json, self._binary = OtlpJsonDecoder(**options), OtlpProtoDecoder(**options)
        self._json.share(self)
        self._binary.share(self)

    def remember(self, memory: Memory) -> Self:
        """Return a copy that lets spans wait, and keeps them in ``memory``."""
        holding = super().remember(memory)
        holding._json, holding._binary = copy(self._json), copy(self._binary)  # noqa: SLF001  # of its own class
        holding._json.share(holding)  # noqa: SLF001
        holding._binary.share(holding)  # noqa: SLF001
        return holding

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the events of the spans in time order, or raise DecodeError."""
        media = next((value for name, value in record.headers if name.lower() == "content-type"), b"")
        is_json = media.startswith(_JSON) if media else record.value.lstrip()[:1] == b"{"
        return self._json.decode(record) if is_json else self._binary.decode(record)
