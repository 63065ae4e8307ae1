"""Spans wait for the one that says whose they are, and are then told to the right session, once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Final, Protocol

import msgspec

from stream_guard import Event
from stream_guard_formats.conversation import Conversation, check_session_id
from stream_guard_formats.genai import Raw, read_span, session_of
from stream_guard_formats.spans import Span, Telling, Told
from stream_guard_formats.stories import has_content, join_logs, labels_of

_TRACE: Final = "t"
_CONVERSATION: Final = "c"
_CLOCK: Final = "now"
# Of each sort; whoever has been silent longest is forgotten.
_MOST: Final = 20_000
# What one trace may keep waiting, and what is remembered of the spans that were told.
_HELD: Final = 1_000
_HELD_BYTES: Final = 1 << 20
_KNOWN: Final = 2_000


class Memory(Protocol):
    """Where rows are kept that must outlive the process."""

    def get(self, name: str) -> bytes | None:
        """Return what was put last, or None."""

    def put(self, name: str, blob: bytes, at: float) -> None:
        """Keep the bytes; ``at`` orders the rows when they are listed."""

    def drop(self, name: str) -> None:
        """Forget the row."""

    def rows(self) -> Iterator[str]:
        """Yield the names of all rows, in the order of ``at``."""


class _Known(msgspec.Struct, array_like=True):
    """What the telling of later spans needs of one that was told."""

    parent_id: str
    sort: str
    name: str
    filled: bool  # it said what went in or came out


class _Trace(msgspec.Struct, array_like=True):
    """One trace: whose it is, and what waits to be told."""

    session_id: str = ""  # empty while nobody has said it
    due: float | None = None  # when waiting is over; None: nothing waits, or nothing has a time
    service: str = ""
    spans: list[Raw] = []
    logs: list[Raw] = []
    known: dict[str, _Known] = {}


# As JSON: attributes may hold numbers of any size, for which msgpack has no room.
_encode_trace = msgspec.json.Encoder().encode
_decode_trace = msgspec.json.Decoder(_Trace).decode
_encode_told = msgspec.msgpack.Encoder().encode
_decode_told = msgspec.msgpack.Decoder(Told).decode


class Stitcher:
    """Tells spans to the conversation of their trace, whichever record names it.

    A span of a trace that nobody has named waits. It is told when a span of its trace names the conversation, when
    the root of the trace is there, which ends last, or when the clock of the spans has moved on by ``wait`` seconds;
    in the last two cases the trace is a session of its own, and stays one. What waits, what was told and the clock
    are rows of ``memory``, so a process that is taken up again goes on as if it had not stopped.
    """

    def __init__(self, memory: Memory, wait: float) -> None:
        self._memory = memory
        self._wait = wait
        self._clock = float(memory.get(_CLOCK) or "-inf")
        self._silence = 0.0  # since the last record
        self._used: dict[str, OrderedDict[str, None]] = {_TRACE: OrderedDict(), _CONVERSATION: OrderedDict()}
        self._due: list[tuple[float, str]] = []
        for name in memory.rows():
            if name != _CLOCK:
                self._used[name[0]][name] = None
                if name[0] == _TRACE and (due := self._trace(name[1:]).due) is not None:
                    heappush(self._due, (due, name[1:]))

    def tell(self, spans: Sequence[Raw], logs: Sequence[Raw], service: str) -> list[Event]:
        """Take in an export and return the events that can be told now, or raise DecodeError and take in nothing."""
        for raw in (*spans, *logs):  # now: what is refused later would be blamed on another record
            check_session_id(session_of(raw.attributes) or raw.trace_id)
            check_session_id(raw.trace_id)
        events: list[Event] = []
        for trace_id, (its_spans, its_logs) in _by_trace(spans, logs).items():
            events += self._take(trace_id, its_spans, its_logs, service)
        self._silence = 0.0
        latest = max((time for raw in (*spans, *logs) if (time := raw.end or raw.start) is not None), default=-inf)
        if latest > self._clock:
            self._clock = latest
            self._memory.put(_CLOCK, repr(latest).encode(), latest)
        return events + self._release(self._clock) + self._forget()

    def elapse(self, seconds: float) -> list[Event]:
        """Return what has waited long enough after so many more seconds without a record."""
        self._silence += seconds
        return self._release(self._clock + self._silence)

    def finish(self) -> list[Event]:
        """Return all that waits: nothing more will come."""
        return self._release(inf)

    def _take(self, trace_id: str, spans: list[Raw], logs: list[Raw], service: str) -> list[Event]:
        trace = self._trace(trace_id)
        trace.service = trace.service or service
        waiting = {raw.span_id for raw in trace.spans}
        trace.spans += [raw for raw in spans if raw.span_id not in waiting and _is_news(raw, trace)]
        trace.logs += [raw for raw in logs if _is_news(raw, trace)]
        if not trace.session_id:
            named = (session_of(raw.attributes) for raw in (*trace.spans, *trace.logs))
            trace.session_id = next((name for name in named if name), "")
        over = len(trace.spans) + len(trace.logs) > _HELD or any(not raw.parent_id for raw in spans)
        if trace.session_id or over:
            return self._settle(trace_id, trace)
        if trace.due is None and (trace.spans or trace.logs):
            times = (raw.end or raw.start for raw in (*trace.spans, *trace.logs))
            first = next((time for time in times if time is not None), self._clock)
            if first > -inf:
                trace.due = first + self._wait
                heappush(self._due, (trace.due, trace_id))
        blob = _encode_trace(trace)
        if len(blob) > _HELD_BYTES:
            return self._settle(trace_id, trace)
        self._put(_TRACE, trace_id, blob)
        return []

    def _release(self, now: float) -> list[Event]:
        """Tell the traces whose time is over, and with ``inf`` all of them."""
        events: list[Event] = []
        while self._due and self._due[0][0] <= now:
            due, trace_id = heappop(self._due)
            trace = self._trace(trace_id)
            if trace.due == due:  # else it was told since
                events += self._settle(trace_id, trace)
        if now == inf:
            for name in [*self._used[_TRACE]]:
                trace = self._trace(name[1:])
                if trace.spans or trace.logs:  # spans without any time wait for no clock
                    events += self._settle(name[1:], trace)
        return events

    def _settle(self, trace_id: str, trace: _Trace) -> list[Event]:
        """Tell what waits in a trace; whose it is does not change any more."""
        trace.session_id = trace.session_id or trace_id
        whole = [raw for raw in join_logs(trace.spans, trace.logs) if _is_news(raw, trace)]
        spans = [read_span(raw) for raw in whole]
        known = [
            Span(span_id, parent_id=one.parent_id, sort=one.sort, name=one.name)  # type: ignore[arg-type]  # as written
            for span_id, one in trace.known.items()
        ]
        blob = self._memory.get(_CONVERSATION + trace.session_id)
        told = Told() if blob is None else _decode_told(blob)
        conversation = Conversation(trace.session_id, labels=labels_of(trace.service))
        events = Telling(conversation, told, known).tell(spans)
        for raw, span in zip(whole, spans, strict=True):
            trace.known[raw.span_id] = _Known(span.parent_id, span.sort, span.name[:200], filled=_is_filled(span))
        for span_id in list(trace.known)[: max(0, len(trace.known) - _KNOWN)]:
            del trace.known[span_id]
        trace.spans, trace.logs, trace.due = [], [], None
        self._put(_TRACE, trace_id, _encode_trace(trace))
        self._put(_CONVERSATION, trace.session_id, _encode_told(told))
        return events

    def _forget(self) -> list[Event]:
        """Let go of what has been silent longest where there is too much; what waits in it is told first."""
        events: list[Event] = []
        for sort, used in self._used.items():
            while len(used) > _MOST:
                name = next(iter(used))
                if sort == _TRACE and ((trace := self._trace(name[1:])).spans or trace.logs):
                    events += self._settle(name[1:], trace)
                used.pop(name, None)
                self._memory.drop(name)
        return events

    def _trace(self, trace_id: str) -> _Trace:
        blob = self._memory.get(_TRACE + trace_id)
        return _Trace() if blob is None else _decode_trace(blob)

    def _put(self, sort: str, name: str, blob: bytes) -> None:
        self._memory.put(sort + name, blob, self._clock if self._clock > -inf else 0.0)
        used = self._used[sort]
        used[sort + name] = None
        used.move_to_end(sort + name)


def _by_trace(spans: Iterable[Raw], logs: Iterable[Raw]) -> dict[str, tuple[list[Raw], list[Raw]]]:
    found: dict[str, tuple[list[Raw], list[Raw]]] = {}
    for raw in spans:
        found.setdefault(raw.trace_id, ([], []))[0].append(raw)
    for raw in logs:
        found.setdefault(raw.trace_id, ([], []))[1].append(raw)
    return found


def _is_filled(span: Span) -> bool:
    return span.inputs is not None or span.outputs is not None


def _is_news(raw: Raw, trace: _Trace) -> bool:
    """Whether a span was not told yet, or was told without the content that it has now."""
    known = trace.known.get(raw.span_id)
    return known is None or (not known.filled and has_content(raw))
