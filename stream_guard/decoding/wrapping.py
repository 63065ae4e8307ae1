"""A decoder around another one: it looks at the events of that, or changes them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from stream_guard.judge.model import Event
from stream_guard.ports import Decoder, Memory, Record


class WrappedDecoder(Decoder):
    """Passes the events of another decoder through ``on_events``, those too that it held back."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    @property
    def waits(self) -> bool:
        """Whether it may hold events back: as the other one does."""
        return self._decoder.waits

    @abstractmethod
    def on_events(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events that take the place of these."""

    @abstractmethod
    def around(self, decoder: Decoder) -> Decoder:
        """Return the same around another decoder."""

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the record's events, or raise DecodeError."""
        return self.on_events(self._decoder.decode(record))

    def remember(self, memory: Memory) -> Decoder:
        """Let the decoder hold events back."""
        return self.around(self._decoder.remember(memory))

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return the events that have waited long enough."""
        return self.on_events(self._decoder.elapse(seconds))

    def finish(self) -> Sequence[Event]:
        """Return the events that still wait."""
        return self.on_events(self._decoder.finish())

    def advice(self) -> Sequence[str]:
        """Return what the decoder advises."""
        return self._decoder.advice()
