"""The shared clock: how far the events of all sessions have come. No single session moves it far.

A session may stamp its events as it likes. A stamp ahead of the clock moves it only when enough other sessions have
passed it too, or, on a live stream, when the receiver's own clock has. A stamp further ahead of the receiver's clock
than the allowed skew is not credible and moves nothing (docs/adr/0020).
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable
from math import inf
from typing import Final

QUORUM: Final = 3  # sessions that must have passed a time


class SharedClock:
    """The event time that sessions are held against, from their stamps.

    Without a receiver's clock and with a quorum of one, it believes every stamp: for tests and for trusted events.
    """

    __slots__ = ("_ahead", "_live", "_quorum", "_receiver", "_skew", "_times", "horizon", "now", "passed")

    def __init__(
        self,
        receiver: Callable[[], float] | None = None,
        *,
        skew: float = 300.0,
        live: bool = False,
        quorum: int = 1,
    ) -> None:
        self.now = -inf
        self.horizon = inf if receiver is None else -inf  # the latest stamp known to be credible
        self._receiver = receiver
        self._skew = skew
        self._live = live
        self._quorum = quorum
        # A stamp up to here moves the clock by itself; ``see`` knows whether a later one does.
        self.passed = inf if quorum == 1 else -inf
        # The sessions that are furthest ahead, as many as the quorum, and the time of each; the least of them first.
        self._ahead: list[str] = []
        self._times: list[float] = []

    def is_credible(self, time: float) -> bool:
        """Whether a stamp is no further ahead of the receiver's clock than the allowed skew."""
        if time > self.horizon and self._receiver is not None:
            self.horizon = self._receiver() + self._skew
        return time <= self.horizon

    def has_passed(self, time: float) -> bool:
        """Whether a stamp is no further than this clock, or moves it by itself."""
        return time <= self.now or time <= self.passed or (self._live and self._has_passed(time))

    def see(self, session_id: str, time: float) -> None:
        """Take note that a session has come to a time, and move the clock where that is believed."""
        if time <= self.now:
            return
        if time <= self.passed or (self._live and self._has_passed(time)):
            self.now = time
            return
        ahead, times = self._ahead, self._times
        if session_id in ahead:
            place = ahead.index(session_id)
            if time <= times[place]:
                return
            del ahead[place], times[place]
        elif len(ahead) == self._quorum:
            if time <= times[0]:
                return
            del ahead[0], times[0]  # the one that is least ahead is no longer among them
        if not times or time >= times[-1]:
            ahead.append(session_id)
            times.append(time)
        else:
            place = bisect(times, time)
            ahead.insert(place, session_id)
            times.insert(place, time)
        if len(ahead) == self._quorum and times[0] > self.now:
            self.now = times[0]

    def _has_passed(self, time: float) -> bool:
        if self._receiver is not None:
            self.passed = self._receiver()
        return time <= self.passed
