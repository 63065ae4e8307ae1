"""Exports of OpenInference: one record for each trace, spans nested in spans."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record
from stream_guard_formats.conversation import Conversation, derived_session
from stream_guard_formats.reading import first_object, has_fields, object_at, objects_in, seconds, text_at
from stream_guard_formats.spans.conventions import read_span, session_of
from stream_guard_formats.spans.flat_spans import is_flat_span, place_of, read_flat_span
from stream_guard_formats.spans.raw_spans import RawSpan
from stream_guard_formats.spans.span_reader import SpanReader

_DURATION: Final = re.compile(r"P(?:(\d{1,5})D)?T(?:(\d{1,5})H)?(?:(\d{1,5})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?")


class OpenInferenceDecoder(JsonDecoder):
    """Reads ``{"trace_id": ..., "spans": [...]}`` a span or a list, with children under ``child_spans``."""

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a trace, or a list of its spans."""
        if has_fields(data, "trace_id", "spans"):
            return 0.95
        return 0.9 if "span_attributes" in first_object(data) else 0.0

    def reads_list(self, items: Sequence[Json]) -> bool:
        """Whether the list is one record: always, it may hold one trace in pieces."""
        return bool(items)

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the trace's events in time order, or raise DecodeError."""
        if isinstance(data, list) or (isinstance(data, dict) and "spans" not in data and is_flat_span(data)):
            data = {"spans": data if isinstance(data, list) else [data]}
        if not isinstance(data, dict) or "spans" not in data:
            raise DecodeError('the record has no "spans"; a trace is an object with a list of them')
        raws = list(_walk(objects_in(data, "spans", "spans"), record))
        session_id = next((name for raw in raws if (name := session_of(raw.attributes))), "")
        trace_id = text_at(data, "trace_id") or next((raw.trace_id for raw in raws if raw.trace_id), "")
        conversation = Conversation(session_id or trace_id or derived_session(record.value))
        return SpanReader(conversation).read([read_span(raw) for raw in raws])


def _walk(spans: list[dict[str, Json]], record: Record) -> Iterator[RawSpan]:
    left, place = list(reversed(spans)), place_of(record)
    while left:
        span = left.pop()
        yield _raw_span(span) if "span_attributes" in span else read_flat_span(span, place)
        left += reversed(objects_in(span, "child_spans", "spans"))


def _raw_span(span: dict[str, Json]) -> RawSpan:
    start = seconds(span.get("timestamp"))
    duration = _DURATION.fullmatch(text_at(span, "duration"))
    end = None
    if start is not None and duration:
        days, hours, minutes, rest = (float(part or 0) for part in duration.groups())
        end = start + days * 86400 + hours * 3600 + minutes * 60 + rest
    return RawSpan(
        trace_id=text_at(span, "trace_id"),
        span_id=text_at(span, "span_id")[:200],
        parent_id=text_at(span, "parent_span_id")[:200],
        name=text_at(span, "span_name")[:200],
        start=start,
        end=end,
        attributes=object_at(span, "span_attributes"),
        failed=span.get("status_code") == "Error",
    )
