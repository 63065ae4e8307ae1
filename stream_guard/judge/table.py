"""All live sessions: each gets its events, time passes for it, and it ends.

There are two clocks. On a stream, the shared clock moves the clock of every session, so that deadlines fire in silent
sessions; a session that lags behind keeps its distance, and one that was closed too early goes on (docs/adr/0020). In
batch, only its own events move the clock of a session, because recorded sessions follow each other in a file. With
events in order, both give the same findings (docs/adr/0005).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nextafter

from msgspec.structs import replace

from stream_guard.judge.clock import SharedClock
from stream_guard.judge.contents import content_digest, exact_content
from stream_guard.judge.counts import Counts
from stream_guard.judge.cross_session import CrossSessionRules
from stream_guard.judge.evaluation import Findings, Objections
from stream_guard.judge.eviction import Eviction
from stream_guard.judge.fold import Engine
from stream_guard.judge.kept import KeptSessions
from stream_guard.judge.keyed_states import KeyedStates
from stream_guard.judge.lifecycle import EndRights, Lifecycle
from stream_guard.judge.limits import Limits
from stream_guard.judge.memory import DecoderMemory
from stream_guard.judge.model import (
    Event,
    GateDecision,
    SessionEnd,
    ToolCall,
    check_session_id,
)
from stream_guard.judge.packing import pack, unpack
from stream_guard.judge.ports import CommittingStore, Store
from stream_guard.judge.rule import State
from stream_guard.judge.session import Session
from stream_guard.judge.session_fold import SessionFold
from stream_guard.judge.stored import OpenCall
from stream_guard.judge.tracker import Counted, Tracker


def _own_id(event: Event, timed: bool) -> str:
    """Return the id of an event whose own is taken; made from its content, so that a redelivery of it has the same."""
    return f"{event.event_id}~{exact_content(event, timed)}"


class SessionTable:
    """Feeds events to their sessions, and keeps the number and the size of sessions within limits."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        counts: Counts,
        limits: Limits | None = None,
        *,
        shared_clock: bool = True,
        clock: SharedClock | None = None,
    ) -> None:
        self.store = store
        self.memory = DecoderMemory(store, counts)
        self.counts = counts
        self.limits = limits or Limits()
        self.shared_clock = shared_clock
        self.clock = clock or SharedClock()
        self._half_window = max(1, self.limits.duplicate_window // 2)
        self._kept = KeptSessions(engine, store, counts, self.limits)
        self._touched = self._kept.touched  # nearly every event's session is there
        self._lifecycle = Lifecycle(engine, self._kept, self.clock, counts)
        self._ends = EndRights(self.limits)
        self._fold = SessionFold(self._kept, self._lifecycle, self.clock, counts, self.limits)
        self._eviction = Eviction(self._kept, self._lifecycle, self._fold, self.clock, counts)
        self.keyed = KeyedStates(engine, self._kept, self._lifecycle, self._eviction, self.clock, shared=shared_clock)
        self._named: Callable[[Event, str], None] | None = None
        self._set_engine(engine)

    def tell_names(self, told: Callable[[Event, str], None]) -> None:
        """Tell the id of each event that came without one, when it gets it."""
        self._named = self._tracker.named = told

    @property
    def watermark(self) -> float:
        """The shared clock; minus infinity before the first event."""
        return self.clock.now

    @watermark.setter
    def watermark(self, time: float) -> None:
        self.clock.now = time

    def _set_engine(self, engine: Engine) -> None:
        self.engine = engine
        show_across = self._show_across if engine.cross_session else None
        self._tracker = Tracker(engine, self.counts, show_across, max_open_calls=self.limits.max_open_calls)
        self._tracker.named = self._named
        self._fold.use(engine, self._tracker)
        self._idle = engine.policy.idle
        # Inline, events have the receiver's time: they are in order, and another time makes no other event.
        self._timed = not engine.is_inline
        self._lateness = engine.policy.max_out_of_orderness if self._timed else 0.0

    def use(self, engine: Engine) -> None:
        """Switch to another policy. Unchanged rules keep their states; dropped states are counted."""
        self._kept.use(engine)
        self._lifecycle.use(engine)
        self.keyed.use(engine)
        self._set_engine(engine)

    def feed(self, event: Event, out: Findings, *, at_once: bool = False) -> Counted | None:
        """Fold one event into its session, and append the findings to ``out``; the event itself stays as it is.

        Returns what a tool call was counted as; None for one that waits, or that was counted before. ``at_once`` is
        for a caller that waits: nothing of the session stays buffered.
        """
        session = self._touched.get(event.session_id)
        if session is None or session.resting:
            session = self._begin(event, session, out)
            if session is None:
                return None
        event_id = event.event_id
        if event_id and event_id[0] != "~":
            content = content_digest(event, self._timed, session.ids.seed)
            if not session.ids.add(event_id, content, self._half_window):
                if self._is_redelivered(event, session, content):
                    self.counts.duplicate_events += 1
                    return None
                event = self._rename(event, session, content)
        counted = self._place(event, session, out)
        return self._release_all(event, out, counted) if at_once else counted

    def _begin(self, event: Event, session: Session | None, out: Findings) -> Session | None:
        """Return the session of an event that has none in memory, or one that rests.

        None where it was ended, and the event says nothing new of it.
        """
        if session is None:
            session = self._admit(event, out)
        if session.resting:
            if session.ended and self._is_told_again(event, session):
                return None
            session = self._lifecycle.wake(session, event)
        return session

    def _rename(self, event: Event, session: Session, content: int) -> Event:
        """Return an event under an id of its own: the one that it came with stands for something else."""
        self.counts.changed_events += 1
        own_id = _own_id(event, self._timed)
        session.ids.add(own_id, content, self._half_window)
        return replace(event, event_id=own_id)

    def _place(self, event: Event, session: Session, out: Findings) -> Counted | None:
        """Fold an event when it is its turn, and let the shared clock follow it."""
        time, clock = event.time, self.clock
        if time is None or (time > clock.horizon and not clock.is_credible(time)):
            return self._place_untimed(event, session, out)
        if self._lateness:
            counted = self._reorder(event, session, out)
            self._follow_clock(time, event.session_id, out)
            return counted
        counted = self._fold.apply(event, session, out)
        if self.shared_clock:
            if time > clock.now:
                if time <= clock.passed:
                    clock.now = time
                else:
                    clock.see(event.session_id, time)
            watermark = clock.now
            session.lag = watermark - session.now if watermark > session.now else 0.0
            if session.scheduled == inf or session.timers or self._kept.next_due <= watermark:
                self._follow_clock(time, event.session_id, out)
        return counted

    def _is_redelivered(self, event: Event, session: Session, content: int) -> bool:
        """Whether the session has seen this event: its id with the same content, or the id of its content."""
        known = session.ids.content(event.event_id)
        if known is None:
            return False
        return known in (0, content) or session.ids.content(_own_id(event, self._timed)) is not None

    def _place_untimed(self, event: Event, session: Session, out: Findings) -> Counted | None:
        """Apply an event without a credible time, or buffer it behind the buffered ones: it came after them."""
        if session.buffer and type(event) is not SessionEnd:
            session.hold_back(event, session.buffer[-1][0])
            return self._fold.release_surplus(session, out, event)
        return self._fold.apply(event, session, out)

    def feed_now(self, event: Event, out: Findings) -> Counted | None:
        """Fold an event whose caller waits: the event and the buffered ones of its session are judged at once."""
        return self.feed(event, out, at_once=True)

    def _release_all(self, event: Event, out: Findings, counted: Counted | None) -> Counted | None:
        """Judge what an event's session holds back, the event too; return what that was counted as."""
        current = self._touched.get(event.session_id)
        if current is None or not current.buffer:
            return counted
        return self._fold.release(current, inf, out, event) or counted

    def rows_of(self, event: Event) -> list[str]:
        """Return the names of the rows that an event will be folded into: its session, and values of keys."""
        keys = (group.key_id(event) for group in self.engine.cross_session)
        return [event.session_id, *(key_id for key_id in keys if key_id is not None)]

    def append_to(self, store: CommittingStore) -> None:
        """Write of a session whose row is stored only what changes: somebody waits for each write."""
        self._kept.append_to(store)

    def drop_idle(self, now: float, *, stored: bool = False) -> None:
        """Drop the sessions that no event goes on with any longer, where no shared clock closes them."""
        self._kept.drop_idle(now, stored=stored)

    def drop_memory(self) -> None:
        """Forget what is in memory: the store knows better."""
        self._kept.drop_memory()

    def find_counted(self, attempt: ToolCall) -> Counted | None:
        """Return the open call that was counted under the id of the attempt's event, with its tool and arguments.

        None where a gate gave its answer too long ago: nobody knows what has run since.
        """
        session = self._touched.get(attempt.session_id)
        calls = session.open.get(attempt.call_id, ()) if session is not None else ()
        contested = attempt.contested != ""
        for call in calls:
            if call.event_id == attempt.event_id and call.same_call(attempt.tool, attempt.args, contested=contested):
                asked_again = call.asked
                if asked_again and not call.may_be_repeated(attempt.time):
                    continue
                if not asked_again:
                    call.note_question(attempt.event_id, attempt.time)
                return Counted(attempt, call, is_repeat=True, asked_again=asked_again)
        return None

    def note_answer(self, decision: GateDecision) -> None:
        """Take note of what the gate of this table answered to a question."""
        session = self._kept.find(decision.session_id)
        call = session.find_asked(decision) if session is not None else None
        if call is not None:
            call.note_answer(decision.action != "allow", decision.time)

    def has_seen(self, event: Event) -> bool:
        """Whether the session of an event has seen it: the event is a redelivery."""
        session = self._kept.find(event.session_id)
        return session is not None and self._knows(event, session)

    def _knows(self, event: Event, session: Session) -> bool:
        event_id = event.event_id
        if not event_id or event_id[0] == "~":
            return False
        return self._is_redelivered(event, session, content_digest(event, self._timed, session.ids.seed))

    def forget_call(self, session_id: str, call: OpenCall) -> None:
        """Forget an open call, so that it is judged anew."""
        session = self._touched.get(session_id)
        if session is not None and any(known is call for known in session.open.get(call.call_id, ())):
            session.drop_open(call)

    def _admit(self, event: Event, out: Findings) -> Session:
        """Load or create the session of an event, and evict another one beyond the limit."""
        check_session_id(event.session_id)
        session = self._kept.load(event.session_id, event)
        if self._kept.is_crowded():
            self._eviction.make_space(session.id, event, out)
        return session

    def _is_told_again(self, event: Event, session: Session) -> bool:
        """Whether an event says nothing new of a session that was ended: a redelivery, or one more end."""
        if self._knows(event, session):
            self.counts.duplicate_events += 1
            return True
        if type(event) is not SessionEnd:
            return False
        self.counts.events[SessionEnd] += 1
        if self._ends.may_end(event):
            self._kept.drop(session)
        return True

    def _show_across(
        self,
        event: Event,
        session: Session,
        out: Findings,
        objections: Objections | None,
        groups: tuple[CrossSessionRules, ...],
    ) -> None:
        """Run rules whose key spans sessions over the event, each with the state of its key value."""
        for group in groups:
            key_id = group.key_id(event)
            if key_id is not None:
                self.keyed.feed(group, key_id, event, session.turns, session.memory, out, objections)
            else:
                self.engine.count_keyless(group, event, session, objections)

    def _reorder(self, event: Event, session: Session, out: Findings) -> Counted | None:
        """Buffer the event until no earlier one is expected."""
        session.hold_back(event, event.time or 0.0)
        settled = session.buffer[-1][0] - self._lateness
        counted = self._fold.advance(session, max(settled, session.now), out, event)
        current = self._touched.get(session.id)
        return counted if current is None else self._fold.release_surplus(current, out, event) or counted

    def _follow_clock(self, time: float, session_id: str, out: Findings) -> None:
        """Advance the watermark by an event's time, and process the sessions whose deadline it has passed."""
        if not self.shared_clock:
            return
        self.clock.see(session_id, time - self._lateness)
        watermark = self.clock.now
        session = self._touched.get(session_id)
        if session is not None:
            newest = session.buffer[-1][0] if session.buffer else session.now
            session.lag = max(0.0, watermark - newest + self._lateness)
            self._kept.schedule(session)
        if self._kept.next_due <= watermark:
            self.advance(watermark, out)

    def follow(self, event: Event, out: Findings) -> None:
        """Let the shared clock follow an event that its session contains already."""
        if event.time is not None and self.clock.is_credible(event.time):
            self.clock.see(event.session_id, event.time - self._lateness)
            self.catch_up(out)

    def catch_up(self, out: Findings) -> None:
        """Process the sessions whose deadline the clock has passed, which others may have moved."""
        if self._kept.next_due <= self.clock.now:
            self.advance(self.clock.now, out)

    def advance(self, watermark: float, out: Findings) -> None:
        """Set the watermark: fire the deadlines it has passed, and close idle sessions.

        The caller promises that no event before ``watermark`` is still expected.
        """
        self.watermark = watermark
        while (session_id := self._kept.deadlines.pop(watermark)) is not None:
            session = self._kept.find(session_id)
            if session is None:
                continue  # it has ended since
            session.scheduled = inf
            if self._kept.deadline(session) <= watermark:
                self._kept.clean.pop(session_id, None)
                self._touched[session_id] = session
                if session.resting:
                    self._kept.drop(session)
                else:
                    self._fold.advance(session, watermark - session.lag, out)
                session = self._touched.get(session_id)
            if session is not None:
                # Everything up to the watermark is done, whatever a rounded deadline says.
                deadline = self._kept.deadline(session)
                if deadline < inf:
                    session.scheduled = deadline if deadline > watermark else nextafter(watermark, inf)
                    self._kept.deadlines.push(session.scheduled, session_id)
        self._kept.next_due = self._kept.deadlines.first()

    def end_all(self, out: Findings) -> None:
        """End of input: end every open session, sorted by id."""
        for session_id in sorted(self._kept.ids()):
            self._fold.release(self._touched.get(session_id) or self._kept.load(session_id), inf, out)
            session = self._touched.get(session_id)
            if session is None:
                continue
            if session.resting:
                self._kept.drop(session)
                continue
            # Nothing more will come: deadlines fire as they would for a session that stays idle on a stream.
            self._fold.end(
                session, "end_of_input", out, time=None if session.time is None else session.now + self._idle
            )

    def states_of(self, session_id: str) -> list[State]:
        """Return the rules' states of a session, for tests and for explanations."""
        session = self._kept.find(session_id)
        return list(session.states.values()) if session is not None else []

    def copy_of(self, session_id: str) -> Session | None:
        """Return a copy of a live session as it would come back from the store, or None when there is none."""
        session = self._kept.find(session_id)
        return None if session is None else unpack(session_id, pack(session, self.engine), self.engine, Counts())

    @property
    def changed(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._touched) or self.memory.changed

    def make_room(self) -> None:
        """Put sessions into the store when more are in memory than the limit allows."""
        self._kept.make_room()

    def commit(self) -> None:
        """Put every changed session into the store, and drop unpacked sessions beyond the in-memory limit."""
        self._kept.put_all()
        self.memory.flush()
