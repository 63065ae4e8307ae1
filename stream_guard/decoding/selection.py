"""Selection: which events of an input are judged. A share of the sessions, a span of time, at a pace."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final
from zlib import crc32

from stream_guard.decoding.lost_calls import lost_call
from stream_guard.errors import DecodeError
from stream_guard.model import Event
from stream_guard.ports import Decoder, GlancingDecoder, HoldingDecoder, Memory, Record
from stream_guard.sessions.table import check_session_id

BUCKETS: Final = 1024  # of sessions; each belongs to one share as a whole, however many shares there are


def bucket_of(session_id: bytes) -> int:
    """Return the bucket of a session, given its id in UTF-8."""
    # A checksum, because Python's own hash differs from process to process.
    return crc32(session_id) % BUCKETS


@dataclass(frozen=True, slots=True)
class Share:
    """Some of the sessions: those whose bucket falls to this number."""

    number: int = 0
    of: int = 1

    def holds(self, session_id: str) -> bool:
        """Whether the session is one of these; every session is in exactly one share."""
        return self.of == 1 or bucket_of(session_id.encode("utf-8", "surrogatepass")) % self.of == self.number

    def buckets(self) -> tuple[bool, ...]:
        """Return for each bucket whether it falls to this share."""
        return tuple(bucket % self.of == self.number for bucket in range(BUCKETS))


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A stretch of event time, from ``start`` up to, and without, ``stop``."""

    start: float = -inf
    stop: float = inf

    def holds(self, moment: float | None) -> bool:
        """Whether a time lies in it; an event without a time lies nowhere but in all of time."""
        if moment is None:
            return self.start == -inf and self.stop == inf
        return self.start <= moment < self.stop


class Pacer:
    """Slows events down to the speed at which they happened, or a multiple of it.

    ``wait`` takes seconds and returns early when the replay is stopped. Earlier events do not wait.
    """

    def __init__(
        self, speed: float, wait: Callable[[float], object], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._speed = speed
        self._wait = wait
        self._clock = clock
        self._first: tuple[float, float] | None = None  # event time and our own, when the first event passed

    def pass_at(self, moment: float) -> None:
        """Return when it is time for an event of this moment."""
        now = self._clock()
        if self._first is None:
            self._first = (moment, now)
        happened, began = self._first
        early = began + (moment - happened) / self._speed - now
        if early > 0:
            self._wait(early)


class EventSelection:
    """A decoder that keeps the events of one share in a time span; ``left_out`` counts those outside the span.

    Where the decoder can tell whose a record is at a glance, only that share decodes it (``make_skips``). All shares
    decode the other records, and a decoder that learns from records learns the same in each of them.
    """

    def __init__(
        self, decoder: Decoder, share: Share | None = None, span: TimeSpan | None = None, pacer: Pacer | None = None
    ) -> None:
        self._share = share or Share()
        self._span = span or TimeSpan()
        self._pacer = pacer
        self.left_out = 0
        self._keeps_all = self._share.of == 1 and self._span == TimeSpan() and pacer is None
        self._use(decoder)

    def _use(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._is_foreign: Callable[[Record, Callable[[bytes], bool]], bool] = _is_unknown
        if self._share.of > 1 and isinstance(decoder, GlancingDecoder):
            self._is_foreign = decoder.is_foreign

    def simplest(self) -> Decoder:
        """Return what decodes the same events: where all are kept that is the decoder alone, without a detour."""
        return self._decoder if self._keeps_all else self

    def make_skips(self) -> Callable[[Record], bool]:
        """Return what tells whether a record belongs to another share, as far as that is known without decoding it.

        It is asked of every record, and made once: looking things up each time would cost as much as the answer.
        """
        is_foreign, buckets = self._is_foreign, self._share.buckets()

        def is_ours(session_id: bytes) -> bool:
            return buckets[crc32(session_id) % BUCKETS]

        return lambda record: is_foreign(record, is_ours)

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the selected events. One share only reports a record that cannot be decoded."""
        try:
            events = self._decoder.decode(record)
            if self._share.of > 1:  # one bad id makes the whole record a dead letter, in every share
                for event in events:
                    check_session_id(event.session_id)
        except DecodeError as error:
            # The share that the record belongs to at a glance is the only one that came here; else all did.
            if self._share.number == 0 or self._is_foreign(record, _is_nobodys):
                raise
            lost = lost_call(record, str(error))
            return () if lost is None or not self.keeps(lost) else (lost,)
        return self._select(events)

    def keeps(self, event: Event) -> bool:
        """Whether an event that was saved from a dead letter belongs to the share."""
        return self._share.holds(event.session_id)

    def remember(self, memory: Memory) -> EventSelection:
        """Let the decoder wait for records that name its sessions."""
        if isinstance(self._decoder, HoldingDecoder):
            self._use(self._decoder.remember(memory))
        return self

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return the selected events among those that have waited long enough."""
        return self._select(self._decoder.elapse(seconds)) if isinstance(self._decoder, HoldingDecoder) else ()

    def finish(self) -> Sequence[Event]:
        """Return the selected events among those that still wait."""
        return self._select(self._decoder.finish()) if isinstance(self._decoder, HoldingDecoder) else ()

    def _select(self, events: Sequence[Event]) -> Sequence[Event]:
        if self._keeps_all:
            return events
        kept = []
        for event in events:
            if not self._share.holds(event.session_id):
                continue
            if not self._span.holds(event.time):
                self.left_out += 1
                continue
            if self._pacer is not None and event.time is not None:
                self._pacer.pass_at(event.time)
            kept.append(event)
        return kept


def _is_unknown(_record: Record, _is_ours: Callable[[bytes], bool]) -> bool:
    """Prove nothing: only decoding tells."""
    return False


def _is_nobodys(_session_id: bytes) -> bool:
    return False
