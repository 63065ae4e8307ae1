"""The worker's health: whether it is ready for work, and whether it is stuck."""

from __future__ import annotations

from collections.abc import Sequence

from stream_guard.judge.counts import Counts
from stream_guard.observability.status import StallDetector


class Health:
    """The last reported state of the worker; read by the thread that answers /readyz and /livez."""

    def __init__(self, counts: Counts, *, patience: float) -> None:
        self._counts = counts
        self._stall = StallDetector(patience=patience)
        self._reasons: Sequence[str] = ("the worker has not started",)

    def update(self, reasons: Sequence[str], lag: int, handled: int) -> None:
        """Set the reasons why the worker is not ready, the lag in records, and the number of handled records."""
        self._reasons = reasons
        self._counts.lag = lag
        self._stall.feed(handled, lag)

    def unready(self) -> Sequence[str]:
        """Return the reasons why the worker is not ready; none when it is."""
        return self._reasons

    def stuck(self) -> str:
        """Return the reason to restart the worker, or an empty text."""
        return self._stall.reason()
