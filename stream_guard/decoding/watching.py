"""A decoder that shows every event to somebody before it is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from stream_guard.decoding.wrapping import WrappedDecoder
from stream_guard.judge.model import Event
from stream_guard.ports import Decoder

Watch: TypeAlias = Callable[[Sequence[Event]], None]


class WatchedDecoder(WrappedDecoder):
    """Passes events on as they are."""

    def __init__(self, decoder: Decoder, watch: Watch) -> None:
        super().__init__(decoder)
        self._watch = watch

    def around(self, decoder: Decoder) -> WatchedDecoder:
        """Return the same around another decoder."""
        return WatchedDecoder(decoder, self._watch)

    def on_events(self, events: Sequence[Event]) -> Sequence[Event]:
        """Show the events."""
        self._watch(events)
        return events


def watched(decoder: Decoder, watch: Watch | None) -> Decoder:
    """Return the decoder with its events shown to ``watch``; the decoder itself without one."""
    return decoder if watch is None else WatchedDecoder(decoder, watch)
