"""What the decoders of OTLP share, whatever the encoding: spans may wait until their session is known."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Final, Self

from stream_guard import Decoder, Event
from stream_guard_formats.stitching import Memory, Stitcher
from stream_guard_formats.stories import OtlpStories

WAIT: Final = 60.0  # seconds of event time that spans wait for the one that names their conversation


class OtlpStream(Decoder):
    """Tells every export at once; once it has a memory, spans wait there for the one that says whose they are."""

    lateness: Final = 5.0  # spans are sent when they end, so they come in the order of their ends

    def __init__(self, *, strict_keys: bool = True, wait: float = WAIT) -> None:
        super().__init__(strict_keys=strict_keys)
        self._wait = wait
        self._stories: OtlpStories | Stitcher = OtlpStories()

    @classmethod
    def configure(cls, settings: Any) -> Self:
        """Return a decoder as the settings under ``decode`` want it."""
        return cls(strict_keys=settings.decode.strict_keys, wait=settings.decode.trace_wait)

    def remember(self, memory: Memory) -> Self:
        """Return a decoder like this one that holds spans back, and remembers in ``memory``."""
        found = copy(self)
        found.use(Stitcher(memory, self._wait))
        return found

    def use(self, stitcher: Stitcher) -> None:
        """Tell through a stitcher from here on."""
        self._stories = stitcher

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return what has waited long enough now that so much time passed in which no record came."""
        return self._stories.elapse(seconds)

    def finish(self) -> Sequence[Event]:
        """Return all that is held back: nothing more will come."""
        return self._stories.finish()
