"""Exports of OTLP become sessions at once: one for each conversation that is named, else one for each trace.

Log records may hold the content of a span. They are joined with it here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from stream_guard import Event, Json, Record
from stream_guard_formats.conversation import Conversation, label
from stream_guard_formats.spans.conventions import read_span, session_of
from stream_guard_formats.spans.log_records import MESSAGES
from stream_guard_formats.spans.raw_spans import RawSpan
from stream_guard_formats.spans.span_reader import SpanReader

_MAX_REMEMBERED: Final = 10_000


class OtlpSessions:
    """Turns each export into events at once; nothing waits for a later record.

    A record may leave out the conversation that an earlier record of its trace named, so the conversations of the
    last 10,000 traces are summarise. A span without content may come after log records that hold its content, so
    the ids of such spans are summarise too, and the span gives no events.
    """

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, str] = OrderedDict()  # by trace
        self._in_logs: OrderedDict[str, bool] = OrderedDict()  # spans whose content came in log records

    def read(self, spans: Sequence[RawSpan], logged: Sequence[RawSpan], service: str, record: Record) -> list[Event]:
        """Return the events of an export, session by session.

        ``logged`` are spans made of its log records, which are from ``service``.
        """
        del record  # nothing waits, so what it brings stands where it does
        for raw in (*spans, *logged):
            if session_id := session_of(raw.attributes):
                _remember(self._sessions, raw.trace_id, session_id)
        for raw in logged:
            _remember(self._in_logs, raw.span_id, True)
        by_session: dict[str, list[RawSpan]] = {}
        for raw in join_logs(spans, logged):
            if raw.span_id not in self._in_logs or has_content(raw):
                by_session.setdefault(self._sessions.get(raw.trace_id, raw.trace_id), []).append(raw)
        events: list[Event] = []
        for session_id, raws in by_session.items():
            conversation = Conversation(session_id, labels=labels_of(raws, service))
            events += SpanReader(conversation).read([read_span(raw) for raw in raws])
        return events

    def elapse(self, seconds: float) -> list[Event]:
        """Return nothing: nothing waits."""
        del seconds
        return []

    def finish(self) -> list[Event]:
        """Return nothing: nothing is held back."""
        return []


def labels_of(raws: Sequence[RawSpan], service: str) -> dict[str, str] | None:
    """Return the labels of all events of a session: the service that its first span is from, else that of its logs."""
    named = [(raw.start or 0.0, raw.span_id, raw.service) for raw in raws if raw.service]
    service = min(named)[2] if named else service
    return {"service": label(service)} if service else None


def join_logs(spans: Sequence[RawSpan], logged: Sequence[RawSpan]) -> list[RawSpan]:
    """Return the spans with the attributes from their log records, and the logged spans that have no span here."""
    if not logged:
        return list(spans)
    left: dict[str, RawSpan] = {}
    for raw in sorted(logged, key=lambda one: one.start or 0.0):
        before = left.get(raw.span_id)
        left[raw.span_id] = raw if before is None else _join(before, raw)
    joined = [
        raw._replace(attributes=raw.attributes | found.attributes) if (found := left.pop(raw.span_id, None)) else raw
        for raw in spans
    ]
    return [*joined, *left.values()]


def _join(before: RawSpan, raw: RawSpan) -> RawSpan:
    """Return the log records of one call as one span. Messages that came in several records follow each other."""
    both = before.attributes | raw.attributes
    for name in MESSAGES:
        one, other = before.attributes.get(name), raw.attributes.get(name)
        if one and other and one != other and isinstance(one, list) and isinstance(other, list):
            both[name] = [*one, *(message for message in other if message not in one)]
        else:
            both[name] = other or one
    ends = [time for time in (before.end, raw.end, raw.start) if time is not None and time != before.start]
    return before._replace(attributes=both, end=max(ends, default=None))


def has_content(raw: RawSpan) -> bool:
    """Whether a span has inputs or outputs."""
    span = read_span(raw)
    return span.inputs is not None or span.outputs is not None


def _remember(table: OrderedDict[str, Json], key: str, value: Json) -> None:
    table[key] = value
    table.move_to_end(key)
    if len(table) > _MAX_REMEMBERED:
        table.popitem(last=False)
