"""The progress of a restore, for the log, the metrics and /readyz."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from stream_guard.judge.counts import RestoreFigure

EVERY: Final = 5.0  # seconds between two lines of the log

_logger = logging.getLogger(__name__)


class RestoreProgress:
    """How far the states of one assignment are restored."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._ended = 0.0
        self._said = 0.0
        self._rows = self._left = 0

    def add(self, rows: int, left: int) -> None:
        """Take note of rows that were read, and of how many are left."""
        self._ended = self._clock()
        self._began = self._began or self._ended
        self._said = self._said or self._ended
        self._rows += rows
        self._left = max(0, left - rows)
        if self._ended - self._said >= EVERY:
            self._said = self._ended
            done = self._rows / (self._rows + self._left)
            _logger.info("states are restored: %d rows read, %d left, %.0f %%", self._rows, self._left, 100 * done)

    def reason(self) -> str:
        """Return why the worker is not ready."""
        read = f"{self._rows} rows read, {self._left} left" if self._rows else "no row read yet"
        return f"states are being recovered: {read}"

    def figures(self, left: int) -> dict[RestoreFigure, float]:
        """Return the numbers for the metrics, with how many rows are left now."""
        return {"rows": self._rows, "rows_left": max(0, left), "seconds": self._ended - self._began}

    def say_end(self, rows: int) -> None:
        """Log what it took, and how many rows there are."""
        took = self._ended - self._began
        _logger.info("states are here: %d rows; %d rows were read for them, in %.1f s", rows, self._rows, took)
