"""Spans one by one, as the exporters of SDKs print them: with an object of attributes, or attributes alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record
from stream_guard_formats.conversation import Conversation, derived_session
from stream_guard_formats.reading import (
    digest,
    first_object,
    has_fields,
    name_of,
    number_at,
    object_at,
    objects_in,
    objects_of,
    seconds,
    text_at,
)
from stream_guard_formats.spans.conventions import read_span, session_of
from stream_guard_formats.spans.otlp_json import attributes_of, nanoseconds
from stream_guard_formats.spans.raw_spans import RawSpan, SpanKind
from stream_guard_formats.spans.span_reader import SpanReader
from stream_guard_formats.spans.stitching import OtlpDecoder

_ERRORS: Final = (2, "ERROR", "Error", "error", "STATUS_CODE_ERROR", "StatusCode.ERROR")
# Attributes that say what a span is about, in the conventions that have such.
_SORT_NAMES: Final = (
    *("openinference.span.kind", "gen_ai.operation.name", "traceloop.span.kind"),
    *("llm.request.type", "ai.operationId", "mcp.method.name"),
)
_KINDS: Final[dict[str, SpanKind]] = {"client": "client", "server": "server"}
_LATEST: Final = 253_402_300_800.0


class FlatSpansDecoder(OtlpDecoder, JsonDecoder):
    """Reads a span or a list of spans. The ids and times may have the names of any SDK; a span may lack them."""

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a span, or a list of spans."""
        span = data if isinstance(data, dict) else first_object(data)
        return 0.85 if is_flat_span(span) else 0.0

    def reads_list(self, items: Sequence[Json]) -> bool:
        """Whether the list is one record: always, it may hold one trace in pieces."""
        return bool(items)

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the spans in time order, or raise DecodeError."""
        spans = objects_of(data if isinstance(data, list) else [data], "spans", "spans")
        if not spans or not any(is_flat_span(span) for span in spans):
            shown = name_of(data) if not isinstance(data, list) else "list without spans"
            raise DecodeError(f'a span has an object of "attributes", or is one, and this is {shown}')
        place = place_of(record)
        return self._sessions.read([read_flat_span(span, place) for span in spans], [], "", record)


def is_flat_span(data: dict[str, Json]) -> bool:
    """Whether an object is a span by itself, or the attributes of one."""
    attributes = data.get("attributes", data.get("span_attributes"))
    if isinstance(attributes, dict | list):
        return bool(_ids(data)[1])
    return any(isinstance(data.get(name), str) for name in _SORT_NAMES)


def place_of(record: Record) -> Callable[[], str]:
    """Return what makes an id of the bytes and the place of a record: once, for all spans of it that have none."""
    return cache(lambda: digest(b"%s\0%d" % (record.value.strip(), record.position)))


def read_flat_span(span: dict[str, Json], place: Callable[[], str]) -> RawSpan:
    """Return the span; without ids it gets some of its own, from the place of its record."""
    attributes = span.get("attributes", span.get("span_attributes"))
    trace_id, span_id, parent_id = _ids(span)
    status = span.get("status")
    code = (status.get("code", status.get("status_code")) if isinstance(status, dict) else status) or span.get(
        "status_code"
    )
    events = span.get("events")
    return RawSpan(
        trace_id=trace_id or f"~{place()}",
        span_id=span_id or place(),
        parent_id=parent_id,
        name=text_at(span, "name", "span_name")[:200],
        start=_moment(span, "start_time", "startTime", "startTimeUnixNano", "timestamp"),
        end=_moment(span, "end_time", "endTime", "endTimeUnixNano"),
        attributes=_plain(span) if attributes is not None else span,
        failed=code in _ERRORS,
        kind=_KINDS.get(str(span.get("kind")).rpartition(".")[2].lower(), ""),
        events=tuple(
            (text_at(event, "name"), _plain(event))
            for event in (events if isinstance(events, list) else [])
            if isinstance(event, dict)
        ),
        service=_service(span),
    )


def _plain(holder: dict[str, Json]) -> dict[str, Json]:
    """Return attributes as a plain object: they may be a list of keys and values, as in OTLP."""
    attributes = holder.get("attributes", holder.get("span_attributes"))
    return attributes if isinstance(attributes, dict) else attributes_of({"attributes": attributes})


def _ids(span: dict[str, Json]) -> tuple[str, str, str]:
    """Return the ids of the trace, the span and its parent; empty where there is none."""
    context = object_at(span, "context") or object_at(span, "spanContext") or span
    above = object_at(span, "parentSpanContext") or object_at(span, "parent")
    parent = text_at(span, "parent_id", "parentSpanId", "parent_span_id", "parentId") or text_at(
        above, "spanId", "span_id"
    )
    found = (text_at(context, "trace_id", "traceId"), text_at(context, "span_id", "spanId", "id"), parent)
    trace_id, span_id, parent_id = (one.removeprefix("0x")[:200] for one in found)
    return trace_id, span_id, parent_id


def _service(span: dict[str, Json]) -> str:
    resource = object_at(span, "resource")
    return text_at(object_at(resource, "attributes") or object_at(resource, "_attributes"), "service.name")


def _moment(span: dict[str, Json], *names: str) -> float | None:
    """Return a time: ISO 8601, a number since 1970 in any unit, or a pair of seconds and nanoseconds."""
    for name in names:
        written = span.get(name)
        if isinstance(written, list) and len(written) == 2:
            whole, rest = number_at({"at": written[0]}, "at"), number_at({"at": written[1]}, "at")
            found = None if whole is None or rest is None else whole + rest / 1e9
        elif name.endswith("UnixNano"):
            found = nanoseconds(written)
        else:
            found = seconds(written)
            number = number_at(span, name)
            if found is None and number is not None:
                found = (
                    number / 1e9
                    if number > 1e17
                    else number / 1e6
                    if number > 1e14
                    else number / 1e3
                    if number > 1e11
                    else number
                )
        if found is not None and 0.0 <= found < _LATEST:
            return found
    return None


# Exports of OpenInference: one record for each trace, spans nested in spans.


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
