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


class _Ahead:
    """One of the sessions that are furthest ahead, and its time."""

    __slots__ = ("id", "time")

    def __init__(self, session_id: str, time: float) -> None:
        self.id = session_id
        self.time = time


class SharedClock:
    """The event time that sessions are held against, from their stamps.

    Without a receiver's clock and with a quorum of one, it believes every stamp: for tests and for trusted events.
    """

    __slots__ = ("_ahead", "_live", "_quorum", "_receiver", "_skew", "horizon", "now", "passed")

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
        self._ahead: list[_Ahead] = []  # as many as the quorum

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
        # A loop over a few, not a dict and min() with a key: this runs for most events of a recording.
        place, least, second = -1, inf, inf
        for number, known in enumerate(self._ahead):
            if known.id == session_id:
                if time > known.time:
                    self._go_on(known, time)
                return
            if known.time < least:
                place, least, second = number, known.time, least
            elif known.time < second:
                second = known.time
        if len(self._ahead) < self._quorum:
            self._ahead.append(_Ahead(session_id, time))
            reached = min(least, time) if len(self._ahead) == self._quorum else -inf
        elif time > least:  # the one that is least ahead is no longer among them
            replaced = self._ahead[place]
            replaced.id, replaced.time = session_id, time
            reached = min(second, time)
        else:
            return
        self.now = max(self.now, reached)

    def _go_on(self, one: _Ahead, time: float) -> None:
        """Note that one of those furthest ahead has gone on; if it was ahead of the clock before, nothing waited."""
        waited = one.time <= self.now and len(self._ahead) == self._quorum
        one.time = time
        if waited:
            for other in self._ahead:
                time = min(time, other.time)
            self.now = max(self.now, time)

    def _has_passed(self, time: float) -> bool:
        if self._receiver is not None:
            self.passed = self._receiver()
        return time <= self.passed
