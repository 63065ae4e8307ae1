"""Spans wait until their session is known, and the spans around them. Any span of a trace may come in any record."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from heapq import heappop, heappush
from math import inf
from typing import Any, Final, NamedTuple, Self

import msgspec

from stream_guard import Decoder, Event, Json, Memory, Record
from stream_guard_formats.conversation import Conversation, check_session_id, label
from stream_guard_formats.reading import digest
from stream_guard_formats.spans.call_views import args_digest
from stream_guard_formats.spans.conventions import RESULT_NAMES, read_span, session_of, sort_of
from stream_guard_formats.spans.conversation_history import ConversationHistory
from stream_guard_formats.spans.log_records import MESSAGES
from stream_guard_formats.spans.raw_spans import RawSpan, Span
from stream_guard_formats.spans.span_reader import SpanReader, by_time

# Exports of OTLP become sessions at once: one for each conversation that is named, else one for each trace.
#
# Log records may hold the content of a span. They are joined with it here.


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


# Names of rows: the clock, or a letter and the id of a trace or a conversation. A row of waiting spans has a number
# behind its letter.
_CLOCK: Final = "now"
_TRACE: Final = "t"
_CONVERSATION: Final = "c"
_WAITING: Final = "w"
# Rows of traces, and of conversations; those that were unused longest are dropped.
_MAX_ROWS: Final = 20_000
# What may wait in one trace and in all, and how many spans that were read, or never came, are summarise.
_MAX_WAITING: Final = 10_000
_MAX_WAITING_BYTES: Final = 16 << 20
_MAX_ALL_BYTES: Final = 64 << 20
_MAX_READ: Final = 2_000
# Seconds of event time that log records wait for the span of their call. Exporters send every five seconds.
_WAIT_FOR_SPAN: Final = 5.0
# The share of the wait for its parents after which a span may be emitted together with another. The spans that
# go on waiting are written anew each time, so a trace must not emit its spans one by one.
_PATIENCE: Final = 29 / 30

_encode_history = msgspec.msgpack.Encoder().encode
_decode_history = msgspec.msgpack.Decoder(ConversationHistory).decode


class _OpenTrace(NamedTuple):
    """Spans of a trace that are about to become events."""

    session_id: str
    raws: list[RawSpan]
    spans: list[Span]
    history: ConversationHistory
    reader: SpanReader


class Stitcher:
    """Turns spans into events of their session, as soon as the session of their trace is known.

    Spans of a trace wait until one of these happens:

    - A span of the trace names the conversation. The conversation is the session.
    - The root span of the trace is there. It ends last, so the trace names no conversation, and is a session itself.
    - The clock of the spans has advanced by ``waits.session`` seconds. The trace is a session itself.

    Then they wait until every span around them is there, or the clock has advanced by ``waits.parents`` seconds. A span
    that has not come by then is given up: the spans inside it become events without it, now and later. At last they
    wait some more seconds where a later record probably completes them: with the content of a call to a model, with its
    span, or with an answer in its history.

    The session of a trace does not change afterwards. Waiting spans, histories and the clock are rows of ``memory``:
    a process that is restarted continues where it stopped.
    """

    def __init__(self, memory: Memory, waits: WaitLimits) -> None:
        self._memory = memory
        self._waits = waits
        self._clock = float(memory.get(_CLOCK) or "-inf")
        self._silence = 0.0  # seconds since the last record
        self._used: dict[str, OrderedDict[str, None]] = {_TRACE: OrderedDict(), _CONVERSATION: OrderedDict()}
        self._waiting: dict[str, WaitingTrace] = {}  # by trace, those that wait longest first
        self._size = 0  # of the rows that wait
        self._numbered = 0  # numbers that such rows were given
        self._due: list[tuple[float, str]] = []
        self._restore()

    def read(self, spans: Sequence[RawSpan], logged: Sequence[RawSpan], service: str, record: Record) -> list[Event]:
        """Add an export, and return the events of all spans whose wait is over.

        ``logged`` are spans made of its log records, which are from ``service``. ``record`` says where it stood.
        Raise DecodeError, and add nothing, if a session could not have the id that a span gives it.
        """
        for raw in (*spans, *logged):  # checked now: refused later, another record would be the dead letter
            check_session_id(session_of(raw.attributes) or raw.trace_id)
            check_session_id(raw.trace_id)
        events: list[Event] = []
        for trace_id, (its_spans, its_logged) in _by_trace(spans, logged).items():
            brought = WaitingSpans(its_spans, its_logged, service)
            if record.line:
                brought.origin, brought.line = record.origin, record.line
            events += self._add(trace_id, brought)
        self._silence = 0.0
        latest = max((time for raw in (*spans, *logged) if (time := raw.end or raw.start) is not None), default=-inf)
        if latest > self._clock:
            self._clock = latest
            self._memory.put(_CLOCK, repr(latest).encode(), latest)
        return events + self._emit_due(self._now) + self._emit_surplus()

    def elapse(self, seconds: float) -> list[Event]:
        """Advance the clock by seconds in which no record came. Return the events whose wait is over."""
        self._silence += seconds
        return self._emit_due(self._now + self._silence)

    def finish(self) -> list[Event]:
        """Return the events of all spans that wait, in time order. No further record will come."""
        # The first messages are emitted first: a later trace of the conversation sends them again.
        traces = sorted(self._waiting, key=lambda trace_id: self._waiting[trace_id].began)
        return by_time([event for trace_id in traces for event in self._emit(trace_id, inf)])

    @property
    def _now(self) -> float:
        return self._clock if self._clock > -inf else 0.0

    def _restore(self) -> None:
        for name in self._memory.rows():
            if name[0] == _WAITING:
                number, _, trace_id = name[1:].partition("/")
                self._numbered = max(self._numbered, int(number))
                self._restore_row(trace_id, name)
            elif name != _CLOCK:
                self._used[name[0]][name] = None
                if name[0] == _TRACE and ((trace := self._load_trace(name[1:])).spans or trace.logged):
                    self._move_to_own_row(name[1:], trace)
        for trace_id, waiting in self._waiting.items():
            due = waiting.until(self._waits)
            if due == -inf:
                due = self._until(waiting, self._open(trace_id, waiting.trace, self._load_waiting(waiting)))
            self._set_due(trace_id, waiting, due)

    def _restore_row(self, trace_id: str, name: str) -> None:
        """Restore the spans of a row that were waiting, except those already emitted."""
        waiting = self._waiting.get(trace_id) or WaitingTrace(self._load_trace(trace_id))
        blob = self._memory.get(name) or b"[]"
        brought = waiting.add(decode_waiting(blob), self._now)
        if not brought.spans and not brought.logged:
            self._memory.drop(name)
            return
        self._waiting[trace_id] = waiting
        waiting.rows.append(name)
        waiting.size += len(blob)
        self._size += len(blob)

    def _move_to_own_row(self, trace_id: str, trace: TraceRow) -> None:
        """Move spans that wait in the row of their trace, as an earlier version stored them, to a row of their own."""
        brought = WaitingSpans(trace.spans, trace.logged, trace.service)
        trace.spans, trace.logged, trace.due = [], [], None
        waiting = WaitingTrace(trace)
        self._hold(trace_id, waiting, waiting.add(brought, self._now))
        self._put(_TRACE, trace_id, encode_row(trace))

    def _add(self, trace_id: str, brought: WaitingSpans) -> list[Event]:
        """Add spans to a trace. Return the events of the trace if nothing of it waits any longer."""
        waiting = self._waiting.get(trace_id) or WaitingTrace(self._load_trace(trace_id))
        brought = waiting.add(brought, self._now)
        if not brought.spans and not brought.logged:
            return []
        due = waiting.until(self._waits)
        if due == -inf:
            opened = self._open(trace_id, waiting.trace, self._load_waiting(waiting, brought))
            due = self._until(waiting, opened)
            if due == -inf:
                return self._close(trace_id, waiting, opened)
        self._hold(trace_id, waiting, brought)
        self._set_due(trace_id, waiting, due)
        if waiting.count > _MAX_WAITING or waiting.size > _MAX_WAITING_BYTES:
            return self._emit(trace_id, inf)
        return []

    def _until(self, waiting: WaitingTrace, opened: _OpenTrace) -> float:
        """Return until when to wait for a record that probably completes the spans."""
        wait = max(opened.reader.missing_views(opened.spans), _WAIT_FOR_SPAN if waiting.lacks_span else 0.0)
        return waiting.first + min(wait, self._waits.session) if wait else -inf

    def _hold(self, trace_id: str, waiting: WaitingTrace, brought: WaitingSpans) -> None:
        self._numbered += 1
        name, blob = f"{_WAITING}{self._numbered}/{trace_id}", encode_row(brought)
        self._memory.put(name, blob, self._now)
        waiting.rows.append(name)
        waiting.size += len(blob)
        self._size += len(blob)
        self._waiting[trace_id] = waiting

    def _set_due(self, trace_id: str, waiting: WaitingTrace, due: float) -> None:
        if due != waiting.due:
            waiting.due = due
            heappush(self._due, (due, trace_id))

    def _emit_due(self, now: float) -> list[Event]:
        """Return the events of the traces whose wait is over."""
        events: list[Event] = []
        while self._due and self._due[0][0] <= now:
            due, trace_id = heappop(self._due)
            if trace_id in self._waiting and self._waiting[trace_id].due == due:  # else it was emitted since
                events += self._emit(trace_id, now - self._waits.parents * _PATIENCE)
        return events

    def _emit_surplus(self) -> list[Event]:
        """Return the events of what waits longest, where too much waits. Drop the rows that were unused longest."""
        events: list[Event] = []
        while self._size > _MAX_ALL_BYTES or len(self._waiting) > _MAX_ROWS:
            events += self._emit(next(iter(self._waiting)), inf)
        for used in self._used.values():
            while len(used) > _MAX_ROWS:
                name, _ = used.popitem(last=False)
                self._memory.drop(name)
        return events

    def _emit(self, trace_id: str, since: float) -> list[Event]:
        """Return the events of a trace whose wait is over; spans for which others wait since then are given up."""
        waiting = self._waiting[trace_id]
        brought = self._load_waiting(waiting)
        waiting.give_up(since)
        complete, kept = waiting.split(brought)
        waiting.trace.session_id = waiting.trace.session_id or _name_of(brought) or trace_id
        events = self._close(trace_id, waiting, self._open(trace_id, waiting.trace, complete))
        if rows := waiting.by_record(kept):
            rest = WaitingTrace(waiting.trace)
            for row in rows:
                self._hold(trace_id, rest, rest.add(row, self._now))
            self._set_due(trace_id, rest, rest.until(self._waits))
        return events

    def _open(self, trace_id: str, trace: TraceRow, brought: WaitingSpans) -> _OpenTrace:
        session_id = trace.session_id or _name_of(brought) or trace_id
        raws = [raw for raw in join_logs(brought.spans, brought.logged) if trace.is_new(raw)]
        spans = [read_span(raw)._replace(emitted=raw.span_id in trace.read) for raw in raws]
        known = [known_span(span_id, span) for span_id, span in trace.read.items()]
        blob = self._memory.get(_CONVERSATION + session_id)
        history = ConversationHistory() if blob is None else _decode_history(blob)
        conversation = Conversation(session_id, labels=labels_of(raws, brought.service))
        return _OpenTrace(session_id, raws, spans, history, SpanReader(conversation, history, known))

    def _close(self, trace_id: str, waiting: WaitingTrace, opened: _OpenTrace) -> list[Event]:
        """Return the events of the spans, which wait no longer. The session of the trace does not change any more."""
        trace = waiting.trace
        events = self._read(opened, waiting.places)
        if orphans := waiting.orphans(opened.raws):
            self._memory.count_orphans(orphans)
        trace.session_id = opened.session_id
        for span in opened.spans:
            trace.read[span.span_id] = summarise(span)
        for table in (trace.read, trace.absent):
            for span_id in list(table)[: max(0, len(table) - _MAX_READ)]:
                del table[span_id]
        self._put(_TRACE, trace_id, encode_row(trace))
        self._put(_CONVERSATION, trace.session_id, _encode_history(opened.history))
        for name in waiting.rows:  # last: spans must be stored as emitted before their rows are dropped
            self._memory.drop(name)
        self._size -= waiting.size
        self._waiting.pop(trace_id, None)
        return events

    def _read(self, opened: _OpenTrace, places: Mapping[str, tuple[str, int]]) -> list[Event]:
        """Return the events of the spans, and note where the records of the spans stood, if that is known."""
        if not places:
            return opened.reader.read(opened.spans)
        sources: list[tuple[Event, str]] = []
        events = opened.reader.read(opened.spans, sources)
        for event, span_id in sources:
            if span_id in places:
                self._memory.note_origin(event, *places[span_id])
        return events

    def _load_trace(self, trace_id: str) -> TraceRow:
        blob = self._memory.get(_TRACE + trace_id)
        return TraceRow() if blob is None else decode_trace(blob)

    def _load_waiting(self, waiting: WaitingTrace, last: WaitingSpans | None = None) -> WaitingSpans:
        """Return all that waits in a trace; ``last`` is what came now."""
        rows = [decode_waiting(self._memory.get(name) or b"[]") for name in waiting.rows]
        rows += [last] if last is not None else []
        if len(rows) == 1:
            return rows[0]
        spans = [raw for brought in rows for raw in brought.spans]
        logged = [raw for brought in rows for raw in brought.logged]
        return WaitingSpans(spans, logged, min((brought.service for brought in rows if brought.service), default=""))

    def _put(self, sort: str, name: str, blob: bytes) -> None:
        self._memory.put(sort + name, blob, self._now)
        used = self._used[sort]
        used[sort + name] = None
        used.move_to_end(sort + name)


def _name_of(brought: WaitingSpans) -> str:
    """Return the conversation that the first of the spans names, of those that name one."""
    named = [
        (raw.start or 0.0, -(raw.end or 0.0), raw.span_id, name)
        for raw in (*brought.spans, *brought.logged)
        if (name := session_of(raw.attributes))
    ]
    return min(named)[3] if named else ""


def _by_trace(spans: Iterable[RawSpan], logged: Iterable[RawSpan]) -> dict[str, tuple[list[RawSpan], list[RawSpan]]]:
    found: dict[str, tuple[list[RawSpan], list[RawSpan]]] = {}
    for raw in spans:
        found.setdefault(raw.trace_id, ([], []))[0].append(raw)
    for raw in logged:
        found.setdefault(raw.trace_id, ([], []))[1].append(raw)
    return found


# Rows that are stored of a trace between records: the spans that wait, and summaries of those that became events.


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


# Spans of one trace that wait, and which spans around them have not come yet.
#
# Spans are sent when they end, so those inside come before those around them. Which agent's a span is, whether a person
# or an agent wrote a message, and which spans are one call: the spans around it say all of that.


_MAX_DEPTH: Final = 100


class WaitLimits(NamedTuple):
    """How long spans wait, in seconds of event time."""

    session: float  # for the span that names the conversation
    parents: float  # for the spans around them; without an end, all that comes waits for the end of the input


class WaitingTrace:
    """The spans of one trace that wait: in which rows they are, and for which spans around them."""

    __slots__ = (
        *("_logged", "_parents", "began", "count", "due", "first"),
        *("lacking", "named", "places", "rows", "size", "trace"),
    )

    def __init__(self, trace: TraceRow) -> None:
        self.trace = trace
        self.rows: list[str] = []
        self.size = 0  # of the rows together
        self.count = 0
        self.due: float | None = None
        self.began = inf
        self.first = inf  # when the first of them ended
        self.named = bool(trace.session_id)  # the session is known, or that no span will name it
        self.lacking: dict[str, float] = {}  # spans that have not come: when the first that waits for each ended
        self.places: dict[str, tuple[str, int]] = {}  # by span: the origin and the line of the record, if it has a line
        self._parents: dict[str, str] = {}  # by span
        self._logged: dict[str, str] = {}  # spans made of log records, by digest

    @property
    def lacks_span(self) -> bool:
        """Whether log records describe a call to a model whose span has not come."""
        found = (span_id for span_id in self._logged.values() if span_id and span_id not in self._parents)
        return any(span_id not in self.trace.read for span_id in found)

    def until(self, waits: WaitLimits) -> float:
        """Return until when to wait, by the ids and the times; minus infinity where nothing is missing."""
        if waits.parents == inf:
            return inf
        if not self.named:
            return self.first + waits.session
        return min(self.lacking.values()) + waits.parents if self.lacking else -inf

    def add(self, brought: WaitingSpans, now: float) -> WaitingSpans:
        """Note spans. Return those that neither wait nor became events. A span without a time gets ``now``."""
        spans: dict[str, RawSpan] = {}
        for raw in brought.spans:
            if raw.span_id not in self._parents and raw.span_id not in spans and self.trace.is_new(raw):
                spans[raw.span_id] = raw
        logged: dict[str, RawSpan] = {}
        for raw in brought.logged:
            if (name := digest(encode_row(raw))) not in self._logged and self.trace.is_new(raw):
                logged[name] = raw
        self._parents |= {raw.span_id: raw.parent_id for raw in spans.values()}
        self._logged |= {name: raw.span_id if is_model_log(raw) else "" for name, raw in logged.items()}
        new = WaitingSpans(list(spans.values()), list(logged.values()), brought.service, brought.origin, brought.line)
        if new.line:
            for raw in (*new.logged, *new.spans):
                self.places.setdefault(raw.span_id, (new.origin, new.line))
        self._note(new, now)
        return new

    def _note(self, new: WaitingSpans, now: float) -> None:
        self.named = self.named or any(not raw.parent_id for raw in new.spans)
        for raw in (*new.spans, *new.logged):
            self.count += 1
            ended = raw.end or raw.start or now
            self.began, self.first = min(self.began, raw.start or ended), min(self.first, ended)
            self.named = self.named or bool(session_of(raw.attributes))
            since = self.lacking.pop(raw.span_id, inf)
            since = min(since, ended) if becomes_events(raw) else since
            if since < inf and (missing := self.missing_above(raw)):
                self.lacking[missing] = min(since, self.lacking.get(missing, inf))

    def missing_above(self, raw: RawSpan) -> str:
        """Return the id of the nearest span around this one that is not known and may still come, else nothing."""
        unknown = self._unknown_above(raw)
        return "" if unknown in self.trace.absent else unknown

    def _unknown_above(self, raw: RawSpan) -> str:
        above = raw.parent_id
        for _ in range(_MAX_DEPTH):
            parent = self._parents.get(above)
            if parent is None:
                if (read := self.trace.read.get(above)) is None:
                    return above
                parent = read.parent_id
            above = parent
        return ""  # a ring

    def give_up(self, before: float) -> None:
        """Wait no longer for spans for which others have waited since this time."""
        late = [span_id for span_id, since in self.lacking.items() if since <= before]
        for span_id in late:
            del self.lacking[span_id]
            self.trace.absent[span_id] = True

    def orphans(self, spans: Iterable[RawSpan]) -> int:
        """Return how many of the spans become events without a span that is around them."""
        absent = self.trace.absent
        return sum(becomes_events(raw) and self._unknown_above(raw) in absent for raw in spans) if absent else 0

    def split(self, brought: WaitingSpans) -> tuple[WaitingSpans, WaitingSpans]:
        """Return the spans whose parents are all known, and those that still lack one."""
        if not self.lacking:
            return brought, WaitingSpans()
        kept = [raw for raw in brought.spans if self.missing_above(raw)]
        left = {raw.span_id for raw in kept}
        logged = [raw for raw in brought.logged if raw.span_id in left or self.missing_above(raw)]
        held = {raw.span_id for raw in logged}
        complete = WaitingSpans(
            [raw for raw in brought.spans if raw.span_id not in left],
            [raw for raw in brought.logged if raw.span_id not in held],
            brought.service,
        )
        return complete, WaitingSpans(kept, logged, brought.service)

    def by_record(self, brought: WaitingSpans) -> list[WaitingSpans]:
        """Return the spans apart by the lines of their records, where these have lines."""
        if not self.places:
            return [brought] if brought.spans or brought.logged else []
        apart: dict[tuple[str, int], WaitingSpans] = {}
        for raws, are_spans in ((brought.spans, True), (brought.logged, False)):
            for raw in raws:
                origin, line = self.places.get(raw.span_id, ("", 0))
                row = apart.setdefault((origin, line), WaitingSpans([], [], brought.service, origin, line))
                (row.spans if are_spans else row.logged).append(raw)
        return list(apart.values())


def becomes_events(raw: RawSpan) -> bool:
    """Whether a span may become events; other spans only surround those that do."""
    sort = sort_of(raw.attributes, raw.name)
    if sort == "agent":
        return raw.kind == "client"
    return sort != "other" or any(name in raw.attributes for name in RESULT_NAMES)


def is_model_log(raw: RawSpan) -> bool:
    """Whether log records describe a call to a model that has a span of its own."""
    return not raw.parent_id and "span.type" not in raw.attributes


# The base of the OTLP decoders, for both encodings: spans may wait until their session is known.


# Seconds of event time that spans wait for the one that names their conversation, and for those around them.
_WAITS: Final = WaitLimits(session=60.0, parents=30.0)


class OtlpDecoder(Decoder):
    """Turns every export into events at once. A copy with a memory lets spans wait until their session is known."""

    @property
    def waits(self) -> bool:
        """Whether it may hold events back: spans wait for the one that names their session."""
        return True

    lateness: Final = 5.0  # spans are sent when they end, so they come in the order of their ends

    def __init__(self, *, strict_keys: bool = True, waits: WaitLimits = _WAITS) -> None:
        super().__init__(strict_keys=strict_keys)
        self._waits = waits
        self._sessions: OtlpSessions | Stitcher = OtlpSessions()

    @classmethod
    def configure(cls, settings: Any) -> Self:
        """Return a decoder for the settings under ``decode``."""
        waits = WaitLimits(settings.decode.trace_wait, settings.decode.parent_wait)
        return cls(strict_keys=settings.decode.strict_keys, waits=waits)

    def remember(self, memory: Memory) -> Self:
        """Return a copy that lets spans wait, and keeps them in ``memory``."""
        holding = copy(self)
        holding._sessions = Stitcher(memory, self._waits)  # noqa: SLF001  # of its own class
        return holding

    def share(self, other: OtlpDecoder) -> None:
        """Use the sessions of another decoder, so that spans that either reads are joined."""
        self._sessions = other._sessions

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Advance the clock by seconds in which no record came. Return the events whose wait is over."""
        return self._sessions.elapse(seconds)

    def finish(self) -> Sequence[Event]:
        """Return the events of all spans that wait. No further record will come."""
        return self._sessions.finish()
