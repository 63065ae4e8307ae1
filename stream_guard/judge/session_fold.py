"""One session and its next event: time moves, the event is judged in its turn, and the session may end with it."""

from __future__ import annotations

from math import inf

from stream_guard.judge.clock import SharedClock
from stream_guard.judge.counts import CloseReason, Counts
from stream_guard.judge.evaluation import Findings
from stream_guard.judge.fold import Engine
from stream_guard.judge.kept import KeptSessions
from stream_guard.judge.lifecycle import EndRights, Lifecycle
from stream_guard.judge.limits import Limits
from stream_guard.judge.model import Event, SessionEnd
from stream_guard.judge.session import Session
from stream_guard.judge.tracker import Counted, Tracker


class SessionFold:
    """Folds events into their sessions, those that are held back too, and ends sessions."""

    _engine: Engine
    _tracker: Tracker
    _idle: float

    def __init__(
        self, kept: KeptSessions, lifecycle: Lifecycle, clock: SharedClock, counts: Counts, limits: Limits
    ) -> None:
        self._kept = kept
        self._touched = kept.touched  # nearly every event's session is there
        self._lifecycle = lifecycle
        self._clock = clock
        self._counts = counts
        self._events = counts.events
        self._max_buffered = limits.max_buffered_bytes
        self._ends = EndRights(limits)

    def use(self, engine: Engine, tracker: Tracker) -> None:
        """Judge by a policy from here on."""
        self._engine = engine
        self._tracker = tracker
        self._idle = engine.policy.idle

    def apply(self, event: Event, session: Session, out: Findings) -> Counted | None:
        """Fold an event that is next in order."""
        time = event.time
        if not self._ends.all_may and type(event) is SessionEnd and not self._ends.may_end(event):
            self._end_for_now(event, session, out)
            return None
        if time is not None:
            now, clock = session.now, self._clock
            if now <= time < now + self._idle and time <= clock.horizon and session.before is None:
                if session.timers:
                    self._engine.fire(session, time, out)
                session.now = time
            elif time <= clock.horizon or clock.is_credible(time):
                session = self._move(session, event, time, out)
            else:
                self._counts.disbelieved_times += 1
                if now == -inf:  # it must end some time
                    session.now = max(clock.now, 0.0) or clock.horizon
                time = None
        if type(event) is SessionEnd:
            self._events[SessionEnd] += 1
            self.end(session, "closed", out, time=time)
            return None
        self._events[type(event)] += 1
        return self._tracker.apply(event, session, out)

    def _move(self, session: Session, event: Event, time: float, out: Findings) -> Session:
        """Move the session's own clock to an event; return the session that the event belongs to."""
        now = session.now
        if time < now and session.before is not None and time - session.before.now < self._idle:
            session = self._take_back(session, out)
            now = session.now
        if time < now:
            self._counts.late_events += 1
            return session
        session.forget_before(time - self._idle)
        if time - now >= self._idle and now > -inf:
            session = self._lifecycle.renew(session, out)
            session.jump = event
        elif session.timers:
            self._engine.fire(session, time, out)
        session.now = time
        return session

    def _take_back(self, session: Session, out: Findings) -> Session:
        """Go on with the session from before a jump that this event takes back: there was no pause."""
        before, jump = session.before, session.jump
        if before is None:
            return session
        self._counts.disbelieved_times += 1
        before.lag, before.scheduled = session.lag, inf
        before.take_buffer(session)
        before.ids = session.ids
        self._touched[session.id] = before
        if jump is not None and type(jump) is not SessionEnd:
            with self._tracker.one_session_only():  # the rules of other keys have seen it
                self._tracker.apply(jump, before, out)
        return before

    def release(self, session: Session, until: float, out: Findings, awaited: Event | None = None) -> Counted | None:
        """Apply the buffered events up to a time; one of them may end or renew the session.

        Returns what the ``awaited`` one was counted as, if it was among them.
        """
        current: Session | None = session
        found: Counted | None = None
        while current is not None and current.buffer and current.buffer[0][0] <= until:
            event = current.let_go()
            counted = self.apply(event, current, out)
            found = counted if event is awaited else found
            current = self._touched.get(session.id)
        return found

    def release_surplus(self, session: Session, out: Findings, awaited: Event) -> Counted | None:
        """Judge the earliest buffered events at once when the session holds back more than it may."""
        current: Session | None = session
        found: Counted | None = None
        while current is not None and current.buffered > self._max_buffered:
            self._counts.evictions["buffered_events"] += 1
            event = current.let_go()
            counted = self.apply(event, current, out)
            found = counted if event is awaited else found
            current = self._touched.get(session.id)
        return found

    def advance(self, session: Session, now: float, out: Findings, awaited: Event | None = None) -> Counted | None:
        """Advance the clock of one session to ``now``; return what the ``awaited`` event was counted as."""
        counted = self.release(session, now, out, awaited)
        current = self._touched.get(session.id)
        if current is None or current.resting:
            return counted
        self._engine.fire(current, now, out)
        idle = self._engine.idle_of(current.id)
        if now - current.now >= idle and current.now > -inf:
            if current.buffer:  # the buffered events came after the idle time
                self._lifecycle.renew(current, out)
            else:
                # Other sessions' clocks show it as idle; it may know better.
                self._lifecycle.close(current, "idle", out, time=current.now + idle)
                # However far the clock has jumped: it is kept for as long again from now.
                current.lag = max(current.lag, self._clock.now - idle - current.now)
                self._kept.rest(current)
        return counted

    def end(
        self, session: Session, reason: CloseReason, out: Findings, *, time: float | None, keep: bool = False
    ) -> None:
        """Close a session and forget it, or ``keep`` it: apply its buffered events first, then judge its end."""
        if session.buffer:
            self._touched[session.id] = session
            self.release(session, inf, out)
            current = self._touched.get(session.id)
            if current is None or current.resting:
                return  # one of the buffered events ended it
            session = current
        self._lifecycle.close(session, reason, out, time=time)
        if keep:
            session.ended = True
            self._kept.rest(session)
        elif reason == "evicted":
            self._kept.forget(session)
        else:
            self._kept.drop(session)

    def _end_for_now(self, end: SessionEnd, session: Session, out: Findings) -> None:
        """Judge the end by somebody who may not end the session. Neither its limits nor its clock move."""
        self._events[SessionEnd] += 1
        time = end.time
        if time is not None and not self._clock.is_credible(time):
            self._counts.disbelieved_times += 1
            time = None
        elif time is not None and not session.now <= time < session.now + self._idle:
            time = None
        self.end(session, "closed", out, time=time, keep=True)
