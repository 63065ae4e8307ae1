"""How sessions close, begin again and wake: what becomes of a session beyond its own events."""

from __future__ import annotations

from math import inf

from stream_guard.judge.clock import SharedClock
from stream_guard.judge.counts import CloseReason, Counts
from stream_guard.judge.cross_session import CrossSessionRules
from stream_guard.judge.evaluation import Findings
from stream_guard.judge.fold import Engine
from stream_guard.judge.kept import KeptSessions
from stream_guard.judge.limits import Limits
from stream_guard.judge.model import RESERVED, Event, SessionEnd
from stream_guard.judge.session import Session


class Lifecycle:
    """Judges the ends of sessions, and decides which session an event after a pause belongs to."""

    def __init__(self, engine: Engine, kept: KeptSessions, clock: SharedClock, counts: Counts) -> None:
        self._kept = kept
        self._clock = clock
        self._counts = counts
        self.use(engine)

    def use(self, engine: Engine) -> None:
        """Switch to another policy."""
        self._engine = engine

    def close(self, session: Session, reason: CloseReason, out: Findings, *, time: float | None) -> None:
        """Judge the end of a session."""
        time = session.time if time is None else time
        if time is not None:
            self._engine.fire(session, time, out)
        end = session.make_end("idle" if reason == "evicted" else reason, time)
        group: CrossSessionRules | None = None
        for rules in self._engine.cross_session:
            if rules.owns(session.id):
                group = rules
                break
        if group is not None or session.id[0] != RESERVED:  # the state of a key without rules is only dropped
            self._engine.end(session, end, out, index=group.index if group else None)
        self._counts.closed[reason] += 1

    def renew(self, session: Session, out: Findings) -> Session:
        """Close an idle session and open it again for the event that follows; the next one may take that back."""
        self.close(session, "idle", out, time=session.now + self._engine.idle_of(session.id))
        renewed = self._open_again(session)
        renewed.take_buffer(session)
        renewed.before, session.before, session.jump = session, None, None
        return renewed

    def _open_again(self, session: Session) -> Session:
        """Begin a new session of the same id; redelivered events of the earlier one are still known."""
        renewed = self._kept.touched[session.id] = Session(session.id)
        renewed.ids = session.ids
        session.marks = None  # from now on the row is that of the new one
        return renewed

    def wake(self, session: Session, event: Event) -> Session:
        """Return the session that an event continues: the one that was closed, or a new one.

        The shared clock closed it, or somebody who may not end it. When it was not idle by its own times, it goes on.
        """
        self._kept.resting.pop(session.id, None)
        self._counts.sessions += 1
        ended = session.ended
        session.resting, session.ended, session.scheduled = False, False, inf
        if not self._was_idle(session, event.time, ended=ended):
            self._counts.disbelieved_ends += ended
            return session
        renewed = self._open_again(session)
        if event.time is not None:  # the next event may take the pause back
            renewed.before, session.before, session.jump = session, None, None
            renewed.jump = event
        return renewed

    def _was_idle(self, session: Session, time: float | None, *, ended: bool) -> bool:
        """Whether a closed session was silent for its idle time before an event."""
        if session.now == -inf:
            return False
        idle = self._engine.idle_of(session.id)
        if time is None:
            return not ended or self._clock.now - session.lag - session.now >= idle
        return self._clock.is_credible(time) and time - session.now >= idle

    def forget(self, session: Session) -> None:
        """Drop a closed session for want of room. One that was ended could go on, and is counted."""
        self._counts.evictions["ended_sessions"] += session.ended
        self._kept.forget(session)


class EndRights:
    """Whose ends of a session let its limits begin anew."""

    def __init__(self, limits: Limits) -> None:
        self._from = frozenset(limits.end_from)
        self.all_may = "*" in self._from

    def may_end(self, end: SessionEnd) -> bool:
        """Whether limits begin anew after this end of a session."""
        return self.all_may or (end.counts_as or end.agent).partition("@")[0] in self._from
