"""Selection: which events of an input are judged. A share of the sessions, a span of time, at a pace."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from zlib import crc32

from stream_guard.errors import DecodeError
from stream_guard.model import Event
from stream_guard.ports import Decoder, HoldingDecoder, Memory, Record


@dataclass(frozen=True, slots=True)
class Share:
    """Some of the sessions: those whose id falls to this number."""

    number: int = 0
    of: int = 1

    def holds(self, session_id: str) -> bool:
        """Whether the session is one of these; every session is in exactly one share."""
        # A checksum, because Python's own hash differs from process to process.
        return self.of == 1 or crc32(session_id.encode("utf-8", "surrogatepass")) % self.of == self.number


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
    """A decoder that keeps the events of one share in a time span; ``left_out`` counts those outside the span."""

    def __init__(
        self, decoder: Decoder, share: Share | None = None, span: TimeSpan | None = None, pacer: Pacer | None = None
    ) -> None:
        self._decoder = decoder
        self._share = share or Share()
        self._span = span or TimeSpan()
        self._pacer = pacer
        self.left_out = 0

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the selected events. Only the first share reports a record that cannot be decoded."""
        try:
            return self._select(self._decoder.decode(record))
        except DecodeError:
            if self._share.number == 0:
                raise
            return ()

    def remember(self, memory: Memory) -> EventSelection:
        """Let the decoder wait for records that name its sessions."""
        if isinstance(self._decoder, HoldingDecoder):
            self._decoder = self._decoder.remember(memory)
        return self

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return the selected events among those that have waited long enough."""
        return self._select(self._decoder.elapse(seconds)) if isinstance(self._decoder, HoldingDecoder) else ()

    def finish(self) -> Sequence[Event]:
        """Return the selected events among those that still wait."""
        return self._select(self._decoder.finish()) if isinstance(self._decoder, HoldingDecoder) else ()

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
