"""Selection: which events of an input are judged. A share of the sessions, a span of time, at a pace."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final
from zlib import crc32

from stream_guard.decoding.reader import lost_call
from stream_guard.errors import DecodeError
from stream_guard.judge.model import Event, check_session_id
from stream_guard.ports import Decoder, Memory, Record

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

    def buckets(self) -> bytes:
        """Return a byte for each bucket: 1 where it falls to this share, else 0."""
        return bytes(bucket % self.of == self.number for bucket in range(BUCKETS))


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


class EventSelection(Decoder):
    """A decoder that keeps the events of one share in a time span; ``left_out`` counts those outside the span.

    Where the decoder can tell whose a record is at a glance, only that share decodes it (``glance``). All shares
    decode the other records, and a decoder that learns from records learns the same in each of them.
    """

    certain: bool
    """Whether a glance has told that the record to decode next belongs to the share; whoever glanced says so."""

    def __init__(
        self, decoder: Decoder, share: Share | None = None, span: TimeSpan | None = None, pacer: Pacer | None = None
    ) -> None:
        self._share = share or Share()
        self._span = span or TimeSpan()
        self._pacer = pacer
        self.left_out = 0
        self.certain = False
        self._ours = self._share.buckets()
        self.keeps_all_times = self._span == TimeSpan() and pacer is None
        self._decoder = decoder

    @property
    def waits(self) -> bool:
        """Whether it may hold events back: as the decoder does."""
        return self._decoder.waits

    @property
    def is_shared(self) -> bool:
        """Whether other shares judge some of the sessions."""
        return self._share.of > 1

    def simplest(self) -> Decoder:
        """Return what decodes the same events: where all are kept that is the decoder alone, without a detour."""
        return self._decoder if self._share.of == 1 and self.keeps_all_times else self

    def own_at_glance(self, records: Sequence[Record], start: int, stop: int) -> tuple[Sequence[int], int]:
        """Return which records certainly belong to the share, and where the first one stands that is not certain.

        Those between belong to others, and nobody needs to decode them here.
        """
        if self._share.of == 1:
            return range(start, stop), stop
        look, ours, own = self._decoder.session_at_glance, self._ours, list[int]()
        for at in range(start, stop):
            session_id = look(records[at])
            if session_id is None:
                return own, at
            if ours[bucket_of(session_id)]:
                own.append(at)
        return own, stop

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the selected events. One share only reports a record that cannot be decoded."""
        if self.certain and self.keeps_all_times:
            return self._decoder.decode(record)
        try:
            events = self._decoder.decode(record)
            for event in events:  # one bad id makes the whole record a dead letter, in every share
                check_session_id(event.session_id)
        except DecodeError as error:
            if self.certain or self._share.number == 0:  # no other share comes here, or all do
                raise
            lost = lost_call(record, str(error))
            return () if lost is None or not self.keeps(lost) else (lost,)
        return self._select(events)

    def keeps(self, event: Event) -> bool:
        """Whether an event that was saved from a dead letter belongs to the share."""
        return self._share.holds(event.session_id)

    def remember(self, memory: Memory) -> EventSelection:
        """Let the decoder wait for records that name its sessions."""
        self._decoder = self._decoder.remember(memory)
        return self

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return the selected events among those that have waited long enough."""
        return self._select(self._decoder.elapse(seconds))

    def finish(self) -> Sequence[Event]:
        """Return the selected events among those that still wait."""
        return self._select(self._decoder.finish())

    def advice(self) -> Sequence[str]:
        """Return what the decoder advises."""
        return self._decoder.advice()

    def _select(self, events: Sequence[Event]) -> Sequence[Event]:
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
