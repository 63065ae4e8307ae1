"""A decoder that shows every event to somebody before it is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from stream_guard.model import Event
from stream_guard.ports import Decoder, HoldingDecoder, Memory, Record

Watch: TypeAlias = Callable[[Sequence[Event]], None]


class WatchedDecoder:
    """Passes events on as they are."""

    def __init__(self, decoder: Decoder, watch: Watch) -> None:
        self._decoder = decoder
        self._watch = watch

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the record's events, or raise DecodeError."""
        return self._shown(self._decoder.decode(record))

    def _shown(self, events: Sequence[Event]) -> Sequence[Event]:
        self._watch(events)
        return events


class HoldingWatchedDecoder(WatchedDecoder):
    """The same for a decoder that holds events back."""

    def __init__(self, decoder: Decoder, holding: HoldingDecoder, watch: Watch) -> None:
        super().__init__(decoder, watch)
        self._holding = holding

    def remember(self, memory: Memory) -> Decoder:
        """Let the decoder hold events back."""
        return watched(self._holding.remember(memory), self._watch)

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return the events that have waited long enough."""
        return self._shown(self._holding.elapse(seconds))

    def finish(self) -> Sequence[Event]:
        """Return the events that still wait."""
        return self._shown(self._holding.finish())


def watched(decoder: Decoder, watch: Watch | None) -> Decoder:
    """Return the decoder with its events shown to ``watch``; the decoder itself without one."""
    if watch is None:
        return decoder
    return (
        HoldingWatchedDecoder(decoder, decoder, watch)
        if isinstance(decoder, HoldingDecoder)
        else WatchedDecoder(decoder, watch)
    )
