"""Rows that are stored of a trace between records: the spans that wait, and summaries of those that became events."""

from __future__ import annotations

import msgspec

from stream_guard_formats.spans.call_views import args_digest
from stream_guard_formats.spans.otlp_sessions import has_content
from stream_guard_formats.spans.raw_spans import RawSpan, Span


class SpanSummary(msgspec.Struct, array_like=True):
    """The part of an emitted span that later spans of its trace need. It is stored: the order of the fields stays."""

    parent_id: str
    sort: str
    name: str
    has_content: bool  # it had inputs or outputs
    start: float | None = None
    end: float | None = None
    call_id: str = ""
    args: str = ""  # a digest
    failed: bool = False
    protocol: str = ""
    identity: str = ""
    agent: str = ""


class TraceRow(msgspec.Struct, array_like=True):
    """One trace with spans that became events. It is stored: the order of the fields stays."""

    session_id: str = ""  # empty until it is known
    due: float | None = None  # this and the next three stay empty: spans that waited once stood here
    service: str = ""
    spans: list[RawSpan] = []
    logged: list[RawSpan] = []
    read: dict[str, SpanSummary] = {}  # by span id
    absent: dict[str, bool] = {}  # spans around others that did not come in time

    def is_new(self, raw: RawSpan) -> bool:
        """Whether a span was not read yet, or was read without the content that it has now."""
        known = self.read.get(raw.span_id)
        return known is None or (not known.has_content and has_content(raw))


class WaitingSpans(msgspec.Struct, array_like=True):
    """What one record brought of a trace, while it waits. It is stored: the order of the fields stays."""

    spans: list[RawSpan] = []
    logged: list[RawSpan] = []  # spans made of log records
    service: str = ""  # of the log records
    origin: str = ""  # of the record
    line: int = 0  # of the record; 0 where it has none


# As JSON: attributes may hold numbers of any size, for which msgpack has no room.
encode_row = msgspec.json.Encoder().encode
decode_trace = msgspec.json.Decoder(TraceRow).decode
decode_waiting = msgspec.json.Decoder(WaitingSpans).decode


def known_span(span_id: str, span: SpanSummary) -> Span:
    """Return a span that became events before, as far as its summary has it."""
    return Span(
        span_id,
        parent_id=span.parent_id,
        sort=span.sort,  # type: ignore[arg-type]  # as it was stored
        name=span.name,
        start=span.start,
        end=span.end,
        call_id=span.call_id,
        args_digest=span.args,
        failed=span.failed,
        protocol=span.protocol,  # type: ignore[arg-type]  # as it was stored
        identity=span.identity,
        agent=span.agent or span.name,
        emitted=True,
    )


def summarise(span: Span) -> SpanSummary:
    """Return the summary of a span that became events."""
    filled = span.inputs is not None or span.outputs is not None
    found = SpanSummary(span.parent_id, span.sort, span.name[:200], filled, failed=span.failed, agent=span.agent)
    if span.sort == "tool":
        found.start, found.end, found.protocol = span.start, span.end, span.protocol
        found.call_id, found.args, found.identity = span.call_id, args_digest(span.inputs), span.identity
    return found
