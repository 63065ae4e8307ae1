"""Exports of OTLP become sessions at once: one for each conversation that is named, else one for each trace.

Log records may hold the content of a span. They are joined with it here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from stream_guard import Event, Json
from stream_guard_formats.conventions import read_span, session_of
from stream_guard_formats.conversation import Conversation, label
from stream_guard_formats.raw_spans import RawSpan
from stream_guard_formats.spans import SpanReader

_MAX_REMEMBERED: Final = 10_000


class OtlpSessions:
    """Turns each export into events at once; nothing waits for a later record.

    A record may leave out the conversation that an earlier record of its trace named, so the conversations of the
    last 10,000 traces are remembered. A span without content may come after log records that hold its content, so
    the ids of such spans are remembered too, and the span gives no events.
    """

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, str] = OrderedDict()  # by trace
        self._in_logs: OrderedDict[str, bool] = OrderedDict()  # spans whose content came in log records

    def read(self, spans: Sequence[RawSpan], logged: Sequence[RawSpan], service: str) -> list[Event]:
        """Return the events of an export, session by session. ``logged`` are spans made of its log records."""
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
            conversation = Conversation(session_id, labels=labels_of(service))
            events += SpanReader(conversation).read([read_span(raw) for raw in raws])
        return events

    def elapse(self, seconds: float) -> list[Event]:
        """Return nothing: nothing waits."""
        del seconds
        return []

    def finish(self) -> list[Event]:
        """Return nothing: nothing is held back."""
        return []


def labels_of(service: str) -> dict[str, str] | None:
    """Return the labels of all events of an export."""
    return {"service": label(service)} if service else None


def join_logs(spans: Sequence[RawSpan], logged: Sequence[RawSpan]) -> list[RawSpan]:
    """Return the spans with the attributes from their log records, and the logged spans that have no span here."""
    if not logged:
        return list(spans)
    left = {raw.span_id: raw.attributes for raw in logged}
    joined = [raw._replace(attributes=raw.attributes | left.pop(raw.span_id, {})) for raw in spans]
    return [*joined, *(raw for raw in logged if raw.span_id in left)]


def has_content(raw: RawSpan) -> bool:
    """Whether a span has inputs or outputs."""
    span = read_span(raw)
    return span.inputs is not None or span.outputs is not None


def _remember(table: OrderedDict[str, Json], key: str, value: Json) -> None:
    table[key] = value
    table.move_to_end(key)
    if len(table) > _MAX_REMEMBERED:
        table.popitem(last=False)
