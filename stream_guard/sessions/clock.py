"""The shared clock: how far the events of all sessions have come. No single session moves it far.

A session may stamp its events as it likes. A stamp ahead of the clock moves it only when enough other sessions have
passed it too, or, on a live stream, when the receiver's own clock has. A stamp further ahead of the receiver's clock
than the allowed skew is not credible and moves nothing (docs/adr/0020).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

QUORUM: Final = 3  # sessions that must have passed a time


class SharedClock:
    """The event time that sessions are held against, from their stamps.

    Without a receiver's clock and with a quorum of one, it believes every stamp: for tests and for trusted events.
    """

    __slots__ = ("_ids", "_live", "_quorum", "_receiver", "_skew", "_times", "horizon", "now", "passed")

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
        # The sessions that are furthest ahead, as many as the quorum, and their times.
        self._ids: list[str] = []
        self._times: list[float] = []

    def is_credible(self, time: float) -> bool:
        """Whether a stamp is no further ahead of the receiver's clock than the allowed skew."""
        if time > self.horizon and self._receiver is not None:
            self.horizon = self._receiver() + self._skew
        return time <= self.horizon

    def see(self, session_id: str, time: float) -> None:
        """Take note that a session has come to a time, and move the clock where that is believed."""
        if time <= self.now:
            return
        if time <= self.passed or (self._live and self._has_passed(time)):
            self.now = time
            return
        if self._take(session_id, time):
            least = time
            for other in self._times:
                least = min(least, other)
            self.now = max(self.now, least)

    def _take(self, session_id: str, time: float) -> bool:
        """Put a session among those that are furthest ahead; whether that may move the clock."""
        # Loops over a few, not a dict and min() with a key: this runs for most events of a recording.
        ids, times = self._ids, self._times
        last = 0
        for number in range(len(ids)):
            if ids[number] == session_id:
                known = times[number]
                if time <= known:
                    return False
                times[number] = time
                # A session that was ahead of the clock already does not hold it back.
                return known <= self.now and len(ids) == self._quorum
            if times[number] < times[last]:
                last = number
        if len(ids) == self._quorum:
            if times[last] >= time:
                return False
            ids[last], times[last] = session_id, time
            return True
        ids.append(session_id)
        times.append(time)
        return len(ids) == self._quorum

    def _has_passed(self, time: float) -> bool:
        if self._receiver is not None:
            self.passed = self._receiver()
        return time <= self.passed
