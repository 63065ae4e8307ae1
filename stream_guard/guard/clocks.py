"""The clock of a guard: an event is judged at the time it came, and no stamp of a caller moves anything."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf


class ReceiverClock:
    """The wall clock of this machine, for a guard that is asked now.

    When it is set back by less than ``hold`` seconds, it stands still until it has caught up: no window is passed
    twice. When it is set back by more, it was wrong before.
    """

    __slots__ = ("_hold", "_latest", "_wall")

    def __init__(self, hold: float = 300.0, wall: Callable[[], float] = time.time) -> None:
        self._hold = hold
        self._wall = wall
        self._latest = -inf

    def __call__(self) -> float:
        """Return the time, in seconds since the epoch."""
        now = self._wall()
        if now < self._latest <= now + self._hold:
            return self._latest
        self._latest = now
        return now


class ReplayClock:
    """A clock that stands where it is put, for a guard that replays: at the time of the event that is told next."""

    __slots__ = ("now",)

    def __init__(self, now: float | None = None) -> None:
        self.now = now  # None: the recording has no clock

    def __call__(self) -> float | None:
        """Return the time that it was put to."""
        return self.now
