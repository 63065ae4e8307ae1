"""How a worker does, in words: whether it is ready for work, and whether it is stuck."""

from __future__ import annotations

from collections.abc import Sequence

from stream_guard.observability.counts import Counts
from stream_guard.observability.status import StallDetector


class Health:
    """What the worker said of itself when it last looked; read from the thread that answers /readyz and /livez."""

    def __init__(self, counts: Counts, *, patience: float) -> None:
        self._counts = counts
        self._stall = StallDetector(patience=patience)
        self._reasons: Sequence[str] = ("the worker has not started",)

    def look(self, reasons: Sequence[str], lag: int, handled: int) -> None:
        """Hear what keeps the worker from its work, how many records wait, and how many it has settled."""
        self._reasons = reasons
        self._counts.lag = lag
        self._stall.feed(handled, lag)

    def unready(self) -> Sequence[str]:
        """Return what keeps the worker from its work; nothing when nothing does."""
        return self._reasons

    def stuck(self) -> str:
        """Return why the worker should be started again; empty when it should not."""
        return self._stall.reason()
