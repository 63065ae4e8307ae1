"""Spans wait until their session is known. Which session a trace has, any of its spans may say, in any record."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Final

import msgspec

from stream_guard import Event, Memory
from stream_guard_formats.call_views import args_digest
from stream_guard_formats.conventions import read_span, session_of
from stream_guard_formats.conversation import Conversation, check_session_id
from stream_guard_formats.conversation_history import ConversationHistory
from stream_guard_formats.otlp_sessions import has_content, join_logs, labels_of
from stream_guard_formats.raw_spans import RawSpan, Span
from stream_guard_formats.spans import SpanReader

# Names of rows: the clock, and a letter in front of a trace's or a conversation's id.
_CLOCK: Final = "now"
_TRACE: Final = "t"
_CONVERSATION: Final = "c"
# Rows of traces, and of conversations; those that were unused longest are dropped.
_MAX_ROWS: Final = 20_000
# What may wait in one trace, and how many spans that were read are remembered.
_MAX_WAITING: Final = 1_000
_MAX_WAITING_BYTES: Final = 1 << 20
_MAX_READ: Final = 2_000


class _ReadSpan(msgspec.Struct, array_like=True):
    """What later spans of a trace need of a span that became events. It is stored: the order of the fields stays."""

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


class _TraceRow(msgspec.Struct, array_like=True):
    """One trace: its session, and the spans that wait. It is stored: the order of the fields stays."""

    session_id: str = ""  # empty until it is known
    due: float | None = None  # when the wait is over; None: nothing waits, or nothing has a time
    service: str = ""
    spans: list[RawSpan] = []
    logged: list[RawSpan] = []  # spans made of log records
    read: dict[str, _ReadSpan] = {}  # by span id


# As JSON: attributes may hold numbers of any size, for which msgpack has no room.
_encode_trace = msgspec.json.Encoder().encode
_decode_trace = msgspec.json.Decoder(_TraceRow).decode
_encode_history = msgspec.msgpack.Encoder().encode
_decode_history = msgspec.msgpack.Decoder(ConversationHistory).decode


class Stitcher:
    """Turns spans into events of their session, as soon as the session of their trace is known.

    Spans of a trace wait until one of these happens:

    - A span of the trace names the conversation. The conversation is the session.
    - The root span of the trace is there. It ends last, so the trace names no conversation, and is a session itself.
    - The clock of the spans has advanced by ``wait`` seconds. The trace is a session itself.

    Then they wait some more seconds where a later record probably tells more of the same: the content of a call to a
    model, an answer in its history, or the span around a span of MCP.

    The session of a trace does not change afterwards. Waiting spans, histories and the clock are rows of ``memory``:
    a process that is restarted continues where it stopped.
    """

    def __init__(self, memory: Memory, wait: float) -> None:
        self._memory = memory
        self._wait = wait
        self._clock = float(memory.get(_CLOCK) or "-inf")
        self._silence = 0.0  # seconds since the last record
        self._used: dict[str, OrderedDict[str, None]] = {_TRACE: OrderedDict(), _CONVERSATION: OrderedDict()}
        self._due: list[tuple[float, str]] = []
        for name in memory.rows():
            if name != _CLOCK:
                self._used[name[0]][name] = None
                if name[0] == _TRACE and (due := self._load_trace(name[1:]).due) is not None:
                    heappush(self._due, (due, name[1:]))

    def read(self, spans: Sequence[RawSpan], logged: Sequence[RawSpan], service: str) -> list[Event]:
        """Add an export, and return the events of all spans whose wait is over.

        Raise DecodeError, and add nothing, if a session could not have the id that a span gives it.
        """
        for raw in (*spans, *logged):  # checked now: refused later, another record would be the dead letter
            check_session_id(session_of(raw.attributes) or raw.trace_id)
            check_session_id(raw.trace_id)
        events: list[Event] = []
        for trace_id, (its_spans, its_logged) in _by_trace(spans, logged).items():
            events += self._add(trace_id, its_spans, its_logged, service)
        self._silence = 0.0
        latest = max((time for raw in (*spans, *logged) if (time := raw.end or raw.start) is not None), default=-inf)
        if latest > self._clock:
            self._clock = latest
            self._memory.put(_CLOCK, repr(latest).encode(), latest)
        return events + self._read_due(self._clock) + self._drop_oldest()

    def elapse(self, seconds: float) -> list[Event]:
        """Advance the clock by seconds in which no record came. Return the events whose wait is over."""
        self._silence += seconds
        return self._read_due(self._clock + self._silence)

    def finish(self) -> list[Event]:
        """Return the events of all spans that wait. No further record will come."""
        return self._read_due(inf)

    def _add(self, trace_id: str, spans: list[RawSpan], logged: list[RawSpan], service: str) -> list[Event]:
        """Add spans to a trace. Return the events of the trace if its session is known now."""
        trace = self._load_trace(trace_id)
        trace.service = trace.service or service
        waiting = {raw.span_id for raw in trace.spans}
        trace.spans += [raw for raw in spans if raw.span_id not in waiting and _is_new(raw, trace)]
        trace.logged += [raw for raw in logged if _is_new(raw, trace)]
        if not trace.session_id:
            names = (session_of(raw.attributes) for raw in (*trace.spans, *trace.logged))
            trace.session_id = next((name for name in names if name), "")
        if any(not raw.parent_id for raw in spans):
            trace.session_id = trace.session_id or trace_id
        if len(trace.spans) + len(trace.logged) > _MAX_WAITING:
            return self._read_trace(trace_id, trace)
        wait = self._wait
        if trace.session_id:
            opened = self._open_trace(trace)
            wait = opened[2].missing_views(opened[0])
            if not wait:
                return self._close_trace(trace_id, trace, *opened)
        if trace.due is None and (trace.spans or trace.logged):
            times = (raw.end or raw.start for raw in (*trace.spans, *trace.logged))
            first = next((time for time in times if time is not None), self._clock)
            if first > -inf:
                trace.due = first + min(wait, self._wait)
                heappush(self._due, (trace.due, trace_id))
        blob = _encode_trace(trace)
        if len(blob) > _MAX_WAITING_BYTES:
            return self._read_trace(trace_id, trace)
        self._put(_TRACE, trace_id, blob)
        return []

    def _read_due(self, now: float) -> list[Event]:
        """Return the events of the traces whose wait is over; with ``inf``, of all traces."""
        events: list[Event] = []
        while self._due and self._due[0][0] <= now:
            due, trace_id = heappop(self._due)
            trace = self._load_trace(trace_id)
            if trace.due == due:  # else its spans were read since
                events += self._read_trace(trace_id, trace)
        if now == inf:
            for name in [*self._used[_TRACE]]:
                trace = self._load_trace(name[1:])
                if trace.spans or trace.logged:  # spans without any time are never due
                    events += self._read_trace(name[1:], trace)
        return events

    def _read_trace(self, trace_id: str, trace: _TraceRow) -> list[Event]:
        """Return the events of the spans that wait in a trace. Its session does not change any more."""
        trace.session_id = trace.session_id or trace_id
        return self._close_trace(trace_id, trace, *self._open_trace(trace))

    def _open_trace(self, trace: _TraceRow) -> tuple[list[Span], ConversationHistory, SpanReader]:
        new = [raw for raw in join_logs(trace.spans, trace.logged) if _is_new(raw, trace)]
        spans = [read_span(raw)._replace(told=raw.span_id in trace.read) for raw in new]
        known = [_known_span(span_id, span) for span_id, span in trace.read.items()]
        blob = self._memory.get(_CONVERSATION + trace.session_id)
        history = ConversationHistory() if blob is None else _decode_history(blob)
        conversation = Conversation(trace.session_id, labels=labels_of(trace.service))
        return spans, history, SpanReader(conversation, history, known)

    def _close_trace(
        self, trace_id: str, trace: _TraceRow, spans: list[Span], history: ConversationHistory, reader: SpanReader
    ) -> list[Event]:
        events = reader.read(spans)
        for span in spans:
            trace.read[span.span_id] = _remembered(span)
        for span_id in list(trace.read)[: max(0, len(trace.read) - _MAX_READ)]:
            del trace.read[span_id]
        trace.spans, trace.logged, trace.due = [], [], None
        self._put(_TRACE, trace_id, _encode_trace(trace))
        self._put(_CONVERSATION, trace.session_id, _encode_history(history))
        return events

    def _drop_oldest(self) -> list[Event]:
        """Drop the rows that were unused longest where there are too many. Return the events that waited in them."""
        events: list[Event] = []
        for sort, used in self._used.items():
            while len(used) > _MAX_ROWS:
                name = next(iter(used))
                if sort == _TRACE and ((trace := self._load_trace(name[1:])).spans or trace.logged):
                    events += self._read_trace(name[1:], trace)
                used.pop(name, None)
                self._memory.drop(name)
        return events

    def _load_trace(self, trace_id: str) -> _TraceRow:
        blob = self._memory.get(_TRACE + trace_id)
        return _TraceRow() if blob is None else _decode_trace(blob)

    def _put(self, sort: str, name: str, blob: bytes) -> None:
        self._memory.put(sort + name, blob, self._clock if self._clock > -inf else 0.0)
        used = self._used[sort]
        used[sort + name] = None
        used.move_to_end(sort + name)


def _known_span(span_id: str, span: _ReadSpan) -> Span:
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
        told=True,
    )


def _remembered(span: Span) -> _ReadSpan:
    filled = span.inputs is not None or span.outputs is not None
    found = _ReadSpan(span.parent_id, span.sort, span.name[:200], filled, failed=span.failed, agent=span.agent)
    if span.sort == "tool":
        found.start, found.end, found.protocol = span.start, span.end, span.protocol
        found.call_id, found.args, found.identity = span.call_id, args_digest(span.inputs), span.identity
    return found


def _by_trace(spans: Iterable[RawSpan], logged: Iterable[RawSpan]) -> dict[str, tuple[list[RawSpan], list[RawSpan]]]:
    found: dict[str, tuple[list[RawSpan], list[RawSpan]]] = {}
    for raw in spans:
        found.setdefault(raw.trace_id, ([], []))[0].append(raw)
    for raw in logged:
        found.setdefault(raw.trace_id, ([], []))[1].append(raw)
    return found


def _is_new(raw: RawSpan, trace: _TraceRow) -> bool:
    """Whether a span was not read yet, or was read without the content that it has now."""
    known = trace.read.get(raw.span_id)
    return known is None or (not known.has_content and has_content(raw))
