"""The base of the OTLP decoders, for both encodings: spans may wait until their session is known."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Final, Self

from stream_guard import Decoder, Event, Memory
from stream_guard_formats.spans.otlp_sessions import OtlpSessions
from stream_guard_formats.spans.stitching import Stitcher, WaitLimits

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
