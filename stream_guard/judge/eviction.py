"""Which session is closed when there are more than may be kept, and what is left of it."""

from __future__ import annotations

from math import inf

from stream_guard.judge.clock import SharedClock
from stream_guard.judge.counts import Counts
from stream_guard.judge.evaluation import Findings
from stream_guard.judge.kept import KeptSessions
from stream_guard.judge.lifecycle import Lifecycle
from stream_guard.judge.model import Event
from stream_guard.judge.session import Session
from stream_guard.judge.session_fold import SessionFold


class Eviction:
    """Closes sessions beyond the limit: of the tenant that has the most, and of those the one that is idle longest.

    On a stream deadlines tell which that is; elsewhere it is the one that was loaded first.
    """

    def __init__(
        self, kept: KeptSessions, lifecycle: Lifecycle, fold: SessionFold, clock: SharedClock, counts: Counts
    ) -> None:
        self._kept = kept
        self._lifecycle = lifecycle
        self._fold = fold
        self._clock = clock
        self._counts = counts

    def make_space(self, newest: str, event: Event, out: Findings) -> None:
        """Close one session where there are too many, but neither the newest nor that of the event."""
        now = self._clock.now if self._clock.now > -inf else event.time
        if now is not None:
            self._kept.expire_forgotten(now)
        needed = (newest, event.session_id)
        session = self._longest_idle(needed) if self._kept.shares is None else self._of_largest_share(needed)
        if session is None:
            return
        if session.resting:
            self._lifecycle.forget(session)
            return
        self._counts.evictions["sessions"] += 1
        self._fold.end(session, "evicted", out, time=session.time)

    def _of_largest_share(self, needed: tuple[str, str]) -> Session | None:
        shares = self._kept.shares
        if shares is not None:
            for session_id in shares.largest(needed[0]):
                if session_id not in needed:
                    return self._kept.find(session_id)
        return None

    def _longest_idle(self, needed: tuple[str, str]) -> Session | None:
        kept = self._kept
        while (session_id := kept.deadlines.pop()) is not None:
            oldest = kept.find(session_id)
            if oldest is None:
                continue
            oldest.scheduled = inf
            if session_id not in needed:
                return oldest
        # No deadlines: one that is closed, or was loaded first.
        for session_id in kept.resting:
            if session_id not in needed and (resting := kept.find(session_id)) is not None:
                return resting
        return kept.find_first_loaded(needed)
