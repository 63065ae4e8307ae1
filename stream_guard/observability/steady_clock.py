"""A time of day that no step of the machine's clock moves.

What waits, or measures how long something takes, goes by it: a clock that is set ends nothing early and stops nothing.
What is held against stamps of others asks what time it is (``receiver_time``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final


def _elapsed() -> float:
    """Return the seconds since the machine was started, those in which it slept too, where it counts them."""
    counted = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if counted is None else time.clock_gettime(counted)


class SteadyClock:
    """What the machine's clock said at first, and the seconds since."""

    __slots__ = ("_began", "_elapsed")

    def __init__(self, wall: Callable[[], float] = time.time, elapsed: Callable[[], float] = _elapsed) -> None:
        self._elapsed = elapsed
        self._began = wall() - elapsed()

    def __call__(self) -> float:
        """Return the time, in seconds since the epoch."""
        return self._began + self._elapsed()


steady_time: Final = SteadyClock()  # one for the process: its moments can be compared


def receiver_time() -> float:
    """Return what time it is, for stamps of others; a clock that is set back does not make their stamps incredible."""
    return max(time.time(), steady_time())
