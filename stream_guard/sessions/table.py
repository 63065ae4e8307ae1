"""All live sessions: who is awake, who is stored, whose time has come.

Two clocks are possible. On a stream, the highest event time seen moves every session's clock, so that
deadlines fire in sessions that have fallen silent; a session that runs behind keeps its distance. In
batch each session has only its own events to go by, because recorded sessions stand one after the
other in a file. When events come in order, both find the same (docs/adr/0005).
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterator, Set
from math import inf
from operator import itemgetter

from msgspec.structs import force_setattr

from stream_guard.engine import Engine
from stream_guard.engine.cross_session import MARK, CrossSessionRules
from stream_guard.engine.fold import Found
from stream_guard.errors import DecodeError
from stream_guard.model import Event, SessionEnd
from stream_guard.observability.counts import CloseReason, Counts
from stream_guard.ports import Store
from stream_guard.rule import State
from stream_guard.sessions.ended import is_ended_row
from stream_guard.sessions.memory import DecoderMemory, is_memory_row
from stream_guard.sessions.session import Session, pack, unpack
from stream_guard.sessions.tracker import Tracker
from stream_guard.settings import SessionLimits


def check_session_id(session_id: str) -> None:
    """Raise DecodeError for an id that no session can have: rows of other things begin with the mark."""
    if not session_id or session_id[0] == MARK:
        raise DecodeError("session_id is empty or begins with a NUL character; give every event its session's id")


class SessionTable:
    """Feeds events to their sessions and keeps the number of them, and their size, within limits."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        counts: Counts,
        limits: SessionLimits | None = None,
        *,
        shared_clock: bool = True,
    ) -> None:
        self.store = store
        self.memory = DecoderMemory(store)
        self.counts = counts
        self.limits = limits or SessionLimits()
        self.shared_clock = shared_clock
        self.watermark = -inf
        self._obey(engine)
        self._half_window = max(1, self.limits.duplicate_window // 2)
        self._touched: dict[str, Session] = {}  # since the last commit
        self._clean: dict[str, Session] = {}  # still unpacked, and stored as they are
        self._heap: list[tuple[float, str]] = []
        self._arrivals = 0
        self._restore()

    def _obey(self, engine: Engine) -> None:
        self.engine = engine
        show_across = self._show_across if engine.cross_session else None
        self._tracker = Tracker(engine, self.counts, show_across, max_open_calls=self.limits.max_open_calls)
        self._track = self._tracker.apply
        self._idle = engine.policy.idle
        self._lateness = engine.policy.max_out_of_orderness

    def use(self, engine: Engine) -> None:
        """Let another policy judge from here on; what rules remember that did not change stays, the rest is counted.

        Sessions are packed under the old policy and unpacked under the new one when they are next needed.
        """
        for session_id, session in self._touched.items():
            self.store.put(session_id, pack(session, self.engine), self._deadline(session))
        self._touched.clear()
        self._clean.clear()
        sooner = max(0.0, self._idle - engine.policy.idle)
        if sooner:  # a shorter silence ends sessions earlier than they were going to be looked at
            self._heap = [(deadline - sooner, session_id) for deadline, session_id in self._heap]
            self._next_due -= sooner
        self._obey(engine)

    def _restore(self) -> None:
        for session_id, deadline in self.store.deadlines():
            if is_ended_row(session_id) or is_memory_row(session_id):
                continue
            self.counts.sessions += 1
            if deadline is not None:
                heapq.heappush(self._heap, (deadline, session_id))
        self._next_due = self._heap[0][0] if self._heap else inf

    def feed(self, event: Event, out: Found) -> None:
        """Fold one event into its session; what it made rules say is appended to ``out``."""
        session = self._touched.get(event.session_id)
        if session is None:
            session = self._arrive(event, out)
        event_id = event.event_id
        if event_id and event_id[0] != "~":
            recent = session.recent
            if event_id in recent or event_id in session.older or (session.restored and session.has_seen(event_id)):
                self.counts.duplicate_events += 1
                return
            recent.add(event_id)
            if len(recent) >= self._half_window:
                session.age_ids()
        time = event.time
        if time is None:
            self._apply(event, session, out)
        elif self._lateness:
            self._reorder(event, session, out)
            self._follow_clock(time, event.session_id, out)
        else:
            self._apply(event, session, out)
            if self.shared_clock:
                watermark = self.watermark
                if time > watermark:
                    self.watermark = watermark = time
                session.lag = watermark - session.now
                if session.scheduled is None or session.timers or self._next_due <= watermark:
                    self._follow_clock(time, event.session_id, out)

    def feed_now(self, event: Event, out: Found) -> None:
        """Fold an event that someone waits for: it and what its session holds back are judged at once."""
        self.feed(event, out)
        session = self._touched.get(event.session_id)
        if session is not None and session.buffer:
            self._release(session, inf, out)

    def _arrive(self, event: Event, out: Found) -> Session:
        """Bring in the session of an event that is not among those at hand."""
        check_session_id(event.session_id)
        session = self._wake(event.session_id)
        if self.counts.sessions > self.limits.max_live:
            self._evict(session, out)
        return session

    def _apply(self, event: Event, session: Session, out: Found) -> None:
        """Fold an event whose turn it is."""
        time = event.time
        if time is not None:
            now = session.now
            if time >= now:
                if time - now >= self._idle and now > -inf:
                    session = self._renew(session, out)
                elif session.timers:
                    self.engine.fire(session, time, out)
                session.now = time
            else:
                self.counts.late_events += 1
        kind = type(event)
        self.counts.events[kind] += 1
        if kind is SessionEnd:
            self._end(session, "closed", out, time=time)
            return
        session.seq += 1
        event_id = event.event_id
        if not event_id or event_id[0] == "~":
            # No id at the source: the content's digest and the place in the session make one that a replay repeats.
            force_setattr(event, "event_id", f"{event_id or '~'}.{session.seq}")
        if event.part and event.part != session.explicit_part:
            self._tracker.begin_part(session, out, name=event.part)
        self._track[kind](event, session, out)
        session.last = event

    def _renew(self, session: Session, out: Found) -> Session:
        """Close a session that fell silent and open it again for the event that broke the silence."""
        waiting, session.buffer = session.buffer, []
        self._end(session, "idle", out, time=session.now + self._idle)
        renewed = self._wake(session.id)
        renewed.buffer = waiting
        renewed.recent, renewed.older, renewed.restored = session.recent, session.older, session.restored
        return renewed

    def _show_across(self, event: Event, session: Session, out: Found) -> None:
        """Show the event to the rules whose key spans sessions, each with the state of its key value."""
        for group in self.engine.cross_session:
            key_id = group.key_id(event)
            if key_id is not None:
                self.feed_key(group, key_id, event, session.turns, session.memory, out)

    def feed_key(
        self, group: CrossSessionRules, key_id: str, event: Event, turns: int, memory: Set[int], out: Found
    ) -> None:
        """Show an event to the rules of one key value. ``turns`` and ``memory`` are those of the event's session."""
        key_state = self._touched.get(key_id) or self._wake(key_id)
        if event.time is not None:
            if event.time - key_state.now >= self._idle and key_state.now > -inf:
                key_state = self._renew(key_state, out)
            self.engine.fire(key_state, event.time, out)
            key_state.now = max(key_state.now, event.time)
        key_state.turns, key_state.last = turns, event
        plan = group.index.plan(event)
        if plan is not None:
            self.engine.run(plan, event, key_state, memory, out)
        if self.shared_clock:
            self._schedule(key_state)

    def _reorder(self, event: Event, session: Session, out: Found) -> None:
        """Hold the event back until nothing earlier is expected any more."""
        self._arrivals += 1
        insort(session.buffer, (event.time or 0.0, self._arrivals, event), key=itemgetter(0, 1))
        settled = session.buffer[-1][0] - self._lateness
        self._wind(session, max(settled, session.now), out)

    def _release(self, session: Session, until: float, out: Found) -> None:
        """Apply the buffered events up to a time; one of them may end the session, or renew it."""
        current: Session | None = session
        while current is not None and current.buffer and current.buffer[0][0] <= until:
            _, _, event = current.buffer.pop(0)
            self._apply(event, current, out)
            current = self._touched.get(session.id)

    def _wake(self, session_id: str) -> Session:
        session = self._clean.pop(session_id, None)
        if session is None:
            blob = self.store.get(session_id)
            session = unpack(session_id, blob, self.engine, self.counts) if blob is not None else None
            if session is None:
                session = Session(session_id)
                if blob is None:
                    self.counts.sessions += 1
        self._touched[session_id] = session
        return session

    def _evict(self, newest: Session, out: Found) -> None:
        """Close the session that has been silent longest: there are more than the limit allows."""
        oldest: Session | None = None
        while self._heap and (oldest is None or oldest is newest):
            oldest = self._at_hand(heapq.heappop(self._heap)[1])
        if oldest is None or oldest is newest:  # no clock: whoever has been here longest
            oldest = self._other_than(newest)
        if oldest is not None:
            self.counts.evictions["sessions"] += 1
            self._end(oldest, "evicted", out, time=oldest.time)

    def _other_than(self, newest: Session) -> Session | None:
        """Return whoever has been here longest."""
        # Loops, not next() of a generator expression: compiled, that is a list and no iterator.
        for held in (self._clean, self._touched):
            for session in held.values():
                if session is not newest:
                    return session
        return None

    def _follow_clock(self, time: float, session_id: str, out: Found) -> None:
        """Let an event move the stream's clock, and wake the sessions whose time has come."""
        if not self.shared_clock:
            return
        self.watermark = max(self.watermark, time - self._lateness)
        session = self._touched.get(session_id)
        if session is not None:
            newest = session.buffer[-1][0] if session.buffer else session.now
            session.lag = self.watermark - newest + self._lateness
            self._schedule(session)
        if self._next_due <= self.watermark:
            self.advance(self.watermark, out)

    def _schedule(self, session: Session) -> None:
        wanted = self._deadline(session)
        if wanted is not None and (session.scheduled is None or wanted < session.scheduled):
            session.scheduled = wanted
            heapq.heappush(self._heap, (wanted, session.id))
            self._next_due = self._heap[0][0]

    def _deadline(self, session: Session) -> float | None:
        """When the session next wants to be looked at, on the stream's clock."""
        wanted = inf if session.now == -inf else session.now + self._idle
        if session.timers:
            wanted = min(wanted, *session.timers.values())
        if session.buffer:
            wanted = min(wanted, session.buffer[0][0])
        return None if wanted == inf else wanted + session.lag

    def advance(self, watermark: float, out: Found) -> None:
        """Move the stream's clock: fire the deadlines and close the silent sessions it has passed.

        Whoever calls this promises that nothing earlier than ``watermark`` is still expected.
        """
        self.watermark = watermark
        while self._heap and self._heap[0][0] <= watermark:
            _, session_id = heapq.heappop(self._heap)
            session = self._at_hand(session_id)
            if session is None:
                continue  # it has ended since
            session.scheduled = None
            due = self._deadline(session)
            if due is not None and due <= watermark:
                self._clean.pop(session_id, None)
                self._touched[session_id] = session
                self._wind(session, watermark - session.lag, out)
                session = self._touched.get(session_id)
            if session is not None:
                self._schedule(session)
        self._next_due = self._heap[0][0] if self._heap else inf

    def _at_hand(self, session_id: str) -> Session | None:
        """Return a live session wherever it is kept, or None when there is none of that id."""
        session = self._touched.get(session_id) or self._clean.get(session_id)
        if session is None and self.store.get(session_id) is not None:
            session = self._wake(session_id)
        return session

    def _wind(self, session: Session, now: float, out: Found) -> None:
        """Bring one session's clock to ``now``."""
        self._release(session, now, out)
        current = self._touched.get(session.id)
        if current is None:
            return
        self.engine.fire(current, now, out)
        if now - current.now >= self._idle and current.now > -inf:
            if current.buffer:  # what waits there came after the silence
                self._renew(current, out)
            else:
                self._end(current, "idle", out, time=current.now + self._idle)

    def _end(self, session: Session, reason: CloseReason, out: Found, *, time: float | None) -> None:
        """Close a session: what is buffered is judged first, then what never came."""
        if session.buffer:
            self._touched[session.id] = session
            self._release(session, inf, out)
            current = self._touched.get(session.id)
            if current is None:
                return  # one of the buffered events ended it
            session = current
        time = session.time if time is None else time
        if time is not None:
            self.engine.fire(session, time, out)
        end = session.make_end("idle" if reason == "evicted" else reason, time)
        group = next((rules for rules in self.engine.cross_session if rules.owns(session.id)), None)
        if group is not None or session.id[0] != MARK:  # the state of a key without rules is only dropped
            self.engine.end(session, end, out, index=group.index if group else None)
        self._touched.pop(session.id, None)
        self._clean.pop(session.id, None)
        self.store.drop(session.id)
        self.counts.sessions -= 1
        self.counts.closed[reason] += 1

    def end_all(self, out: Found) -> None:
        """End of input: judge every session that is still open, in a settled order."""
        for session_id in sorted(self._ids()):
            self._release(self._touched.get(session_id) or self._wake(session_id), inf, out)
            session = self._touched.get(session_id)
            if session is None:
                continue
            # Nothing more will come: deadlines fire as they would for a session that stays silent on a stream.
            self._end(session, "end_of_input", out, time=None if session.time is None else session.now + self._idle)

    def _ids(self) -> Iterator[str]:
        known = {*self._touched, *self._clean}
        yield from known
        stored = (session_id for session_id, _ in self.store.deadlines() if session_id not in known)
        yield from (one for one in stored if not is_ended_row(one) and not is_memory_row(one))

    def states_of(self, session_id: str) -> list[State]:
        """Return the rules' states of a session, for tests and for explanations."""
        session = self._at_hand(session_id)
        return list(session.states.values()) if session is not None else []

    @property
    def changed(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._touched) or self.memory.changed

    def relieve(self) -> None:
        """Pack sessions away when there are more in memory than the limit says."""
        if len(self._touched) > self.limits.in_memory:
            self.commit()

    def commit(self) -> None:
        """Hand every session that changed to the store, and let go of what is too much for the memory."""
        for session_id, session in self._touched.items():
            self.store.put(session_id, pack(session, self.engine), self._deadline(session))
        self.memory.flush()
        self._clean.update(self._touched)
        self._touched.clear()
        surplus = len(self._clean) - self.limits.in_memory
        for session_id in list(self._clean)[: max(0, surplus)]:
            del self._clean[session_id]
