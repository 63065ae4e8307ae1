"""OTLP in its binary form: exports of traces, as they stand in a topic that a collector writes to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf.message import DecodeError as BrokenMessage
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from stream_guard import DecodeError, Event, Json, Record
from stream_guard_formats.genai import Raw
from stream_guard_formats.otlp import OtlpStories, nanoseconds
from stream_guard_formats.reading import text_at
from stream_guard_formats.reasons import say_too_large

_DEEPEST = 50


class OtlpProtoDecoder:
    """Reads one ``ExportTraceServiceRequest`` to a record; the same as its JSON."""

    def __init__(self, *, strict_keys: bool = True) -> None:
        self._strict = strict_keys  # protobuf has no keys that could stand twice
        self._stories = OtlpStories()

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the events of the spans in time order, or raise DecodeError."""
        if record.truncated:
            raise DecodeError(say_too_large(record))
        if not record.value:
            return []
        try:
            request = ExportTraceServiceRequest.FromString(record.value)
        except BrokenMessage as error:
            raise DecodeError(f"not an OTLP export of traces in protobuf: {error}; JSON is otlp-json") from None
        spans: list[Raw] = []
        service = ""
        for resource in request.resource_spans:
            service = service or text_at(_attributes(resource.resource.attributes), "service.name")
            for scope in resource.scope_spans:
                spans += [_span(span) for span in scope.spans]
        return self._stories.tell(spans, (), service)


def _span(span: Any) -> Raw:
    if len(span.trace_id) != 16 or len(span.span_id) != 8:
        raise DecodeError("a span has no trace id of 16 bytes or no span id of 8; without them it belongs to nothing")
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
