"""The judge by itself: events in, findings out, and rows that whoever runs it keeps.

Each session gets its events, time passes for it, and it ends. There are two clocks. On a stream, the shared clock moves
the clock of every session, so that deadlines fire in silent sessions; a session that lags behind keeps its distance,
and one that was closed too early goes on. In batch, only its own events move the clock of a session, because recorded
sessions follow each other in a file. With events in order, both give the same findings.

Time goes one way: nothing that was judged is taken back. An event that comes the idle time or more after its session's
clock waits until something stands behind that pause: the next event of the session, or the shared clock. A late event
is judged where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from math import inf, nextafter
from typing import Final, TypeAlias

from msgspec.structs import replace

from stream_guard.judge.arguments import read_attempt
from stream_guard.judge.clock import SharedClock
from stream_guard.judge.counts import CloseReason, Counts
from stream_guard.judge.findings import Findings, Objections
from stream_guard.judge.fold import Engine
from stream_guard.judge.identity import attempt_across, content_digest, derived_id, own_id
from stream_guard.judge.index import CrossSessionRules, Plan
from stream_guard.judge.kept import KeptSessions
from stream_guard.judge.limits import Limits
from stream_guard.judge.model import (
    RESERVED,
    Event,
    Finding,
    GateDecision,
    SessionEnd,
    ToolCall,
    ToolResult,
    check_session_id,
)
from stream_guard.judge.ports import NO_ANSWERS, Answer, DecoderMemory, JudgeAnswers, Store
from stream_guard.judge.rows import pack, unpack
from stream_guard.judge.rule import Mode, State
from stream_guard.judge.session import ENDED, LIVE, RESTING, OpenCall, Session
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.judge.tracker import Counted, Judged, Tracker

__all__ = ["Counted", "Judge", "Judged", "Row"]

_CLOCK: Final = f"{RESERVED}clock{RESERVED}"
_NOTHING: Final = Judged([])

Row: TypeAlias = tuple[str, bytes | None, float | None]
"""The name of a row, its bytes, and when it is to be looked at; no bytes: it is to be deleted."""

Forward: TypeAlias = Callable[[str, Event, int, Set[int], bool], None]
"""Gets an event for the rules of a key value, the turns and the memory of its session, and whether a rule reads it."""


class Judge:
    """Judges events by one policy. It knows no file, thread, socket or clock: time is that of the events.

    >>> judge = Judge(policy, mode="stream")  # doctest: +SKIP
    >>> judge.feed(event).findings  # doctest: +SKIP
    """

    def __init__(
        self,
        policy: Policy | Judge,
        limits: Limits | None = None,
        *,
        mode: Mode = "batch",
        store: Store | None = None,
        counts: Counts | None = None,
        clock: SharedClock | None = None,
        answers: JudgeAnswers = NO_ANSWERS,
        forward: Forward | None = None,
    ) -> None:
        """Open a judge over the rows of a store, or rows of its own.

        Instead of a policy, another judge lends its compiled rules, with its mode and answers, and where nothing else
        is said its limits and counts. With ``forward``, rules whose key spans sessions are judged elsewhere.
        """
        if isinstance(policy, Judge):
            counts = counts if counts is not None else policy.counts
            limits, mode, engine = limits or policy.limits, policy.mode, policy._engine  # noqa: SLF001  # of its class
        else:
            counts, limits = counts if counts is not None else Counts(), limits or Limits()
            engine = Engine(policy, counts, mode=mode, max_states=limits.max_states, answers=answers)
        self.counts: Counts = counts
        self.limits: Limits = limits
        self.mode: Mode = mode
        self.clock = clock or SharedClock()
        self._half_window = max(1, limits.duplicate_window // 2)
        self._events = counts.events
        self._end_from = frozenset(limits.end_from)
        self._all_may_end = "*" in self._end_from
        self._forward = forward
        self.found: Findings = []  # in the call that goes on, for those who watch rules while they judge
        self._named: Callable[[Event, str], None] | None = None
        self._preview: Judge | None = None
        self._makes_space = False  # an eviction goes on
        self._rows = _Rows()  # without a store
        self._store: Store = store if store is not None else self._rows
        self._shares_clock = mode == "stream"
        self._open(engine)

    def _open(self, engine: Engine) -> None:
        """Begin with what the store has."""
        self.memory = DecoderMemory(self._store, self.counts)
        self._kept = KeptSessions(engine, self._store, self.counts, self.limits)
        self._touched = self._kept.touched  # nearly every event's session is there
        self._set_engine(engine)

    def _set_engine(self, engine: Engine) -> None:
        self._engine = engine
        self.policy = engine.policy
        self.answers = engine.answers
        show_across = self._show_across if engine.cross_session else None
        self._tracker = Tracker(engine, self.counts, show_across, max_open_calls=self.limits.max_open_calls)
        self._tracker.named = self._named
        self._preview = None
        self._idle = engine.policy.idle
        # Inline, events have the receiver's time: they are in order, and another time makes no other event.
        self._timed = not engine.is_inline
        self._lateness = engine.policy.max_out_of_orderness if self._timed else 0.0

    def use(self, policy: Policy | Judge) -> None:
        """Judge by another policy from here on. Rules that did not change keep their states; dropped ones are counted.

        A judge by that policy lends its rules, which so were compiled before.
        """
        if isinstance(policy, Judge):
            engine = policy._engine  # noqa: SLF001  # of its own class
        else:
            most = self.limits.max_states
            engine = Engine(policy, self.counts, mode=self.mode, max_states=most, answers=self.answers)
        self._kept.use(engine)
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

    # What rules there are.

    @property
    def across(self) -> list[RuleSpec]:
        """The rules whose key spans sessions."""
        return [bound.spec for group in self._engine.cross_session for bound in group.index.bounds]

    def under_its_name(self, attempt: ToolCall) -> ToolCall:
        """Return an attempt with the name by which rules know its tool."""
        name = self._engine.names[attempt.tool]
        return attempt if name is None else replace(attempt, tool=name.tool)

    def asked_about(self, attempt: ToolCall) -> frozenset[int]:
        """Return the numbers of the rules that are asked about an attempt, before its arguments are looked at.

        The kind of such a rule looks at calls of the tool, and its agent is the attempt's or above it.
        """
        engine, agents = self._engine, self.policy.agents
        attempt = self.under_its_name(attempt)
        indexes = (engine.local, *[group.index for group in engine.cross_session])
        plans = [index.calls[attempt.tool] for index in indexes]
        bounds = [bound for plan in plans if plan is not None for bound in plan.rules]
        owners = {bound.spec.agent for bound in bounds}
        governing = {owner for owner in owners if not owner or agents.governs(owner)(attempt)}
        return frozenset([bound.number for bound in bounds if bound.spec.agent in governing])

    def settle(self, finding: Finding, answer: Answer | None) -> Finding | None:
        """Return what an answer makes of a finding that waited for it, None where nothing is left; count it."""
        return self._engine.settle(finding, answer)

    # An event comes.

    def feed(self, event: Event) -> Judged:
        """Judge one event, in the order in which it came; the event itself stays as it is."""
        out: Findings = []
        self.found = out
        session = self._touched.get(event.session_id)
        if session is None:
            check_session_id(event.session_id)
            session = self._load(event.session_id, event, out)
        event_id = event.event_id
        if event_id and event_id[0] != "~":
            ids = session.lasting.ids
            content = content_digest(event, self._timed, ids.seed)
            if not ids.add(event_id, content, self._half_window):
                if not self._is_redelivered(event, session, content):
                    event = self._rename(event, session, content)
                else:
                    known = self._find_counted(event, session, out)
                    if known is None or known.opened.asked:
                        self.counts.duplicate_events += 1
                        return known or (Judged(out) if out else _NOTHING)
                    event = replace(event, event_id=known.opened.event_id)  # told before, and asked about now
        counted: Counted | None = None
        if session.life is LIVE:
            counted = self._place(event, session, out)
        elif type(event) is SessionEnd:
            self._end_again(event, session, out)
        else:
            counted = self._place(event, self._wake(session, event), out)
        if counted is not None:
            return counted
        return Judged(out) if out else _NOTHING

    def _load(self, session_id: str, event: Event, out: Findings) -> Session:
        """Load or create a session, or the state of a key value, and evict another one beyond the limit."""
        session = self._kept.load(session_id, event)
        if self._kept.unwritable:
            self._tell_unwritable(out)
        if self._kept.is_crowded() and not self._makes_space:
            self._make_space(session_id, event, out)
        return session

    def _tell_unwritable(self, out: Findings) -> None:
        """Tell of the sessions that were closed because no row can hold them, once each."""
        out += self._kept.unwritable
        self._kept.unwritable = []

    def _rename(self, event: Event, session: Session, content: int) -> Event:
        """Return an event under an id of its own: the one that it came with stands for something else."""
        self.counts.changed_events += 1
        event_id = own_id(event, self._timed)
        session.lasting.ids.add(event_id, content, self._half_window)
        return replace(event, event_id=event_id)

    def _is_redelivered(self, event: Event, session: Session, content: int) -> bool:
        """Whether the session has seen this event: its id with the same content, or the id of its content."""
        ids = session.lasting.ids
        known = ids.content(event.event_id)
        if known is None:
            return False
        return known in (0, content) or ids.content(own_id(event, self._timed)) is not None

    def _place(self, event: Event, session: Session, out: Findings) -> Counted | None:
        """Fold an event when it is its turn, and let the shared clock follow it."""
        time, clock, now = event.time, self.clock, session.now
        if (
            time is None
            or not now <= time < now + self._idle
            or time > clock.horizon
            or session.waiting is not None
            or self._lateness
            or type(event) is SessionEnd
        ):
            return self._place_apart(event, session, out)
        # Nearly every event: the next of its session.
        shares_clock = self._shares_clock
        if shares_clock and clock.now < time <= clock.passed:
            clock.now = time
        if session.timers:
            self._engine.fire(session, time, out)
        session.now = time
        self._events[type(event)] += 1
        counted = self._tracker.apply(event, session, out)
        if shares_clock:
            if clock.now < time:
                clock.see(session.id, time)
            now = clock.now
            session.lag = now - time if now > time else 0.0
            if session.timers or self._kept.next_due <= now or session.scheduled == inf:
                self._follow_clock(time, session.id, out)
        return counted

    def _place_apart(self, event: Event, session: Session, out: Findings) -> Counted | None:
        """Fold an event that may not be the next of its session: it waits, is late, or follows a pause."""
        time, clock = event.time, self.clock
        if time is None or not clock.is_credible(time):
            return self._place_untimed(event, session, out)
        if session.waiting is not None and self._is_pause_open(session):
            session = self._settle_pause(session, time, out)
        if self._lateness:
            counted = self._reorder(event, session, out)
            self._follow_clock(time, event.session_id, out)
            return counted
        if time - session.now >= self._idle and session.now > -inf and not self._is_pause_believed(event, time):
            session.hold_back(event, time)
            if self._shares_clock:
                self._kept.schedule(session)
            return self._release_surplus(session, out, event)
        if self._shares_clock and clock.now < time <= clock.passed:
            clock.now = time
        counted = self._apply(event, session, out)
        if self._shares_clock:
            self._follow_clock(time, session.id, out)
        return counted

    def _place_untimed(self, event: Event, session: Session, out: Findings) -> Counted | None:
        """Apply an event without a credible time, or buffer it behind the buffered ones: it came after them."""
        waiting = session.waiting
        if waiting is not None and waiting.events and type(event) is not SessionEnd:
            session.hold_back(event, waiting.last)
            if not self._lateness:  # a pause that an event without a time stands behind
                return self._release(session, inf, out, event)
            return self._release_surplus(session, out, event)
        return self._apply(event, session, out)

    def _is_pause_believed(self, event: Event, time: float) -> bool:
        """Whether a pause before an event is one, whatever comes next; an end opens nothing, so nothing hangs on it."""
        if type(event) is SessionEnd or not self._timed:
            return True
        return self._shares_clock and self.clock.has_passed(time)

    def _is_pause_open(self, session: Session) -> bool:
        """Whether the last waiting event is one that came after a pause, and nothing stands behind that so far."""
        waiting = session.waiting
        if waiting is None or not waiting.events:
            return False
        before = max(session.now, waiting.events[-2][0]) if len(waiting.events) > 1 else session.now
        time, _, event = waiting.events[-1]
        return time - before >= self._idle and before > -inf and not self._is_pause_believed(event, time)

    def _settle_pause(self, session: Session, time: float, out: Findings) -> Session:
        """Believe the pause before the last waiting event, or not, now that the next event has come at a time."""
        waiting = session.waiting
        if waiting is None:
            return session
        if time < waiting.last - self._idle:
            # There was no pause: the event is judged where it came, and its stamp moves no clock.
            before = max(session.now, waiting.events[-2][0]) if len(waiting.events) > 1 else session.now
            waiting.put_last_at(before)
        if not self._lateness:
            self._release(session, inf, out)
            return self._touched.get(session.id) or self._kept.load(session.id)
        return session

    def _reorder(self, event: Event, session: Session, out: Findings) -> Counted | None:
        """Buffer the event until no earlier one is expected."""
        session.hold_back(event, event.time or 0.0)
        newest = self._newest(session)
        counted = self._advance_session(session, max(newest - self._lateness, session.now), out, event)
        current = self._touched.get(session.id)
        return counted if current is None else self._release_surplus(current, out, event) or counted

    def _newest(self, session: Session) -> float:
        """Return the latest time of a session that is believed."""
        waiting = session.waiting
        if waiting is None or not waiting.events:
            return session.now
        if not self._is_pause_open(session):
            return waiting.last
        return max(session.now, waiting.events[-2][0]) if len(waiting.events) > 1 else session.now

    def _release(self, session: Session, until: float, out: Findings, awaited: Event | None = None) -> Counted | None:
        """Apply the waiting events up to a time; one of them may end or renew the session.

        Returns what the ``awaited`` one was counted as, if it was among them.
        """
        current: Session | None = session
        found: Counted | None = None
        while current is not None and current.waiting is not None and current.waiting.events:
            if current.waiting.first > until:
                break
            at, event = current.waiting.pop()
            counted = self._apply(event, current, out, at=at)
            found = counted if event is awaited else found
            current = self._touched.get(session.id)
        return found

    def _release_surplus(self, session: Session, out: Findings, awaited: Event) -> Counted | None:
        """Judge the earliest waiting events at once when the session holds back more than it may."""
        current: Session | None = session
        found: Counted | None = None
        most = self.limits.max_buffered_bytes
        while current is not None and current.waiting is not None and current.waiting.size > most:
            self.counts.evictions["buffered_events"] += 1
            at, event = current.waiting.pop()
            counted = self._apply(event, current, out, at=at)
            found = counted if event is awaited else found
            current = self._touched.get(session.id)
        return found

    def _apply(self, event: Event, session: Session, out: Findings, at: float = inf) -> Counted | None:
        """Fold an event that is next in order; ``at`` is where it was placed, where its own stamp is not believed."""
        time = event.time
        if type(event) is SessionEnd:
            self._end_by(event, session, out)
            return None
        if time is not None:
            now, clock = session.now, self.clock
            if time > at or not (time <= clock.horizon or clock.is_credible(time)):
                self.counts.disbelieved_times += 1
                if now == -inf:  # it must end some time
                    known = (at, max(clock.now, 0.0) or clock.horizon)
                    session.now = next((place for place in known if place < inf), 0.0)
                time = session.now  # the stamp moves no window, limit or deadline of anybody
                event = replace(event, time=time)
            elif time < now:
                self.counts.late_events += 1
            else:
                if time - now >= self._idle and now > -inf:
                    session = self._renew(session, time, out)
                elif session.timers:
                    self._engine.fire(session, time, out)
                session.now = time
        self._events[type(event)] += 1
        return self._tracker.apply(event, session, out)

    # A session closes, begins again, goes on.

    def _end_by(self, end: SessionEnd, session: Session, out: Findings) -> None:
        """End a session by its own event. Where the event may not end it, neither its limits nor its clock move."""
        self._events[SessionEnd] += 1
        time = end.time
        if time is not None and not self.clock.is_credible(time):
            self.counts.disbelieved_times += 1
            time = None
        elif time is not None:
            time = None if time < session.now else min(time, session.now + self._idle) if session.now > -inf else time
        keep = not self._may_end(end)
        ended_by = "" if keep else end.event_id
        if not keep and ended_by[:1] in ("", "~"):
            ended_by = derived_id(end, session.lasting.told)
        self._end(session, "closed", out, time=time, ended_by=ended_by, keep=keep)

    def _may_end(self, end: SessionEnd) -> bool:
        """Whether limits begin anew after this end of a session."""
        return self._all_may_end or (end.counts_as or end.agent).partition("@")[0] in self._end_from

    def _end(
        self,
        session: Session,
        reason: CloseReason,
        out: Findings,
        *,
        time: float | None,
        ended_by: str = "",
        keep: bool = False,
    ) -> None:
        """Close a session and forget it, or ``keep`` it: apply its waiting events first, then judge its end."""
        if session.waiting is not None and session.waiting.events:
            self._touched[session.id] = session
            self._release(session, inf, out)
            current = self._touched.get(session.id)
            if current is None or current.life is not LIVE:
                return  # one of the waiting events ended it
            session = current
        if session.earlier is not None:
            self._close_earlier(session, out)
        self._close(session, reason, out, time=time, ended_by=ended_by)
        if reason == "closed":
            self._kept.rest(session if keep else self._begin_anew(session), ended=True)
        elif reason == "evicted":
            self._kept.forget(session)
        else:
            self._kept.drop(session)

    def _begin_anew(self, session: Session) -> Session:
        """Keep of a session that ended for good what lasts as long as its id: what is found later has other ids."""
        anew = self._touched[session.id] = Session(session.id, session.lasting)
        anew.now, anew.lag = session.now, session.lag
        return anew

    def _close(
        self, session: Session, reason: CloseReason, out: Findings, *, time: float | None, ended_by: str = ""
    ) -> None:
        """Judge the end of a session, once for what it has seen."""
        if session.end_judged == session.seq:
            return
        time = session.time if time is None else time
        if time is not None and session.timers:
            self._engine.fire(session, time, out)
        end = session.make_end("idle" if reason == "evicted" else reason, time)
        group = self._group_of(session.id)
        if group is not None or session.id[0] != RESERVED:  # the state of a key without rules is only dropped
            session.ended_by = ended_by
            self._engine.end(session, end, out, index=group.index if group else None)
            session.ended_by = ""
        session.end_judged = session.seq
        self.counts.closed[reason] += 1

    def _group_of(self, session_id: str) -> CrossSessionRules | None:
        for rules in self._engine.cross_session:
            if rules.owns(session_id):
                return rules
        return None

    def _renew(self, session: Session, time: float, out: Findings) -> Session:
        """Close an idle session and open it again for the event that follows."""
        self._close(session, "idle", out, time=session.now + self._engine.idle_of(session.id))
        renewed = self._open_again(session, time)
        renewed.waiting = session.waiting
        return renewed

    def _open_again(self, session: Session, time: float | None) -> Session:
        """Begin a new session of the same id; what lasts as long as the id goes on.

        So does what another policy knows that does not begin anew after such a silence.
        """
        renewed = self._touched[session.id] = Session(session.id, session.lasting)
        if time is not None and time - session.now < session.strangers.idle:
            renewed.strangers, session.strangers = session.strangers, renewed.strangers
        return renewed

    def _wake(self, session: Session, event: Event) -> Session:
        """Return the session that an event continues: the one that was closed, or a new one.

        The shared clock closed it, or somebody who may not end it. When it was not idle by its own times, it goes on.
        """
        self._kept.resting.pop(session.id, None)
        self.counts.sessions += 1
        ended = session.life is ENDED
        session.life, session.scheduled = LIVE, inf
        if session.seq == 0 or self._was_idle(session, event, ended=ended):
            renewed = self._open_again(session, event.time)
            renewed.earlier = session.earlier
            return renewed
        if event.time is None or event.time - session.now < self._idle:  # a longer pause is still to be believed
            self.counts.disbelieved_ends += ended
        return session

    def _was_idle(self, session: Session, event: Event, *, ended: bool) -> bool:
        """Whether a closed session was silent for its idle time before an event."""
        if session.now == -inf:
            return False
        idle, time = self._engine.idle_of(session.id), event.time
        if time is None:
            return not ended or self.clock.now - session.lag - session.now >= idle
        if not self.clock.is_credible(time) or time - session.now < idle or session.id[0] == RESERVED:
            return False  # of a key, ``_move_key`` keeps what was before the pause
        return not ended or self._is_pause_believed(event, time)

    def _end_again(self, end: SessionEnd, session: Session, out: Findings) -> None:
        """Take note of an end of a session that is closed: of a life of which nothing is known, or nothing new."""
        self._events[SessionEnd] += 1
        if session.seq == 0:
            self._close(session, "closed", out, time=None)
        if self._may_end(end):
            self._begin_anew(session).life = ENDED

    def _make_space(self, newest: str, event: Event, out: Findings) -> None:
        """Close sessions while there are too many, but neither the newest nor that of the event.

        What an evicted one held back is judged, and may load others: none of those makes space once more.
        """
        now = self.clock.now if self.clock.now > -inf else event.time
        if now is not None:
            self._kept.expire_forgotten(now)
        self._makes_space = True
        try:
            while self._kept.is_crowded():
                session = self._kept.find_surplus((newest, event.session_id))
                if session is None:
                    return
                if session.life is not LIVE:
                    self.counts.evictions["ended_sessions"] += session.life is ENDED and session.seq > 0
                    self._close_earlier(session, out)
                    self._kept.forget(session)
                else:
                    self.counts.evictions["sessions"] += 1
                    self._end(session, "evicted", out, time=session.time)
        finally:
            self._makes_space = False

    # Time passes.

    def _follow_clock(self, time: float, session_id: str, out: Findings) -> None:
        """Advance the watermark by an event's time, and process the sessions whose deadline it has passed."""
        if not self._shares_clock:
            return
        session = self._touched.get(session_id)
        if session is None or session.waiting is None or not self._is_pause_open(session):  # nothing hangs on that
            self.clock.see(session_id, time - self._lateness)
        watermark = self.clock.now
        if session is not None:
            newest = self._newest(session)
            session.lag = max(0.0, watermark - newest + self._lateness)
            self._kept.schedule(session)
        if self._kept.next_due <= watermark:
            self._advance(watermark, out)

    def follow(self, event: Event) -> list[Finding]:
        """Let the shared clock follow an event that its session contains already."""
        out: Findings = []
        self.found = out
        if event.time is not None and self.clock.is_credible(event.time):
            self.clock.see(event.session_id, event.time - self._lateness)
            if self._kept.next_due <= self.clock.now:
                self._advance(self.clock.now, out)
        return out

    def advance(self, time: float) -> list[Finding]:
        """Judge what has passed by a time without an event: deadlines, and the ends of silent sessions.

        The caller promises that no event before that time is still expected.
        """
        out: Findings = []
        self.found = out
        self._advance(max(time, self.clock.now), out)
        return out

    def _advance(self, watermark: float, out: Findings) -> None:
        self.watermark = watermark
        if self._kept.unwritable:
            self._tell_unwritable(out)
        deadlines = self._kept.deadlines
        while (due := deadlines.first()) <= watermark and (session_id := deadlines.pop()) is not None:
            session = self._kept.find(session_id)
            if session is None:
                continue  # it has ended since
            session.scheduled = inf
            if self._kept.deadline(session) > due:  # it has gone on since, and has its turn later
                self._kept.schedule(session)
                continue
            self._kept.clean.pop(session_id, None)
            self._touched[session_id] = session
            self._pass_earlier(session, out)
            if session.life is RESTING:
                if self._kept.deadline(session) <= watermark:  # it has no earlier life any more
                    self._kept.drop(session)
            elif session.life is ENDED:  # however far the clock has jumped: it may go on for as long again
                session.life = RESTING
                session.lag = max(session.lag, watermark - self._idle - session.now)
            else:
                self._advance_session(session, watermark - session.lag, out)
            session = self._touched.get(session_id)
            if session is not None:
                # Everything up to the watermark is done, whatever a rounded deadline says.
                deadline = self._kept.deadline(session)
                if deadline < inf:
                    session.scheduled = deadline if deadline > watermark else nextafter(watermark, inf)
                    deadlines.push(session.scheduled, session_id)
        self._kept.next_due = deadlines.first()

    def _advance_session(
        self, session: Session, now: float, out: Findings, awaited: Event | None = None
    ) -> Counted | None:
        """Advance the clock of one session to ``now``; return what the ``awaited`` event was counted as.

        Its deadlines fire up to its own idle end and not beyond: what is found does not hang on how often others speak.
        """
        counted = self._release(session, now, out, awaited)
        current = self._touched.get(session.id)
        if current is None or current.life is not LIVE:
            return counted
        idle = self._engine.idle_of(current.id)
        over = current.now + idle if current.now > -inf else inf
        self._engine.fire(current, min(now, over), out, after=current.now)
        if now >= over and (current.waiting is None or not current.waiting.events):  # what waits is judged first
            # Other sessions' clocks show it as idle; it may know better.
            self._close(current, "idle", out, time=over)
            # However far the clock has jumped: it is kept for as long again from now.
            current.lag = max(current.lag, self.clock.now - idle - current.now)
            self._kept.rest(current)
        return counted

    def end(self, session: str | None = None) -> list[Finding]:
        """Judge the end of one session, or of all that are open: no more events will come."""
        if session is not None:
            return list(self.feed(SessionEnd(session_id=session)).findings)
        out: Findings = []
        self.found = out
        self._end_all(out)
        return out

    def _end_all(self, out: Findings) -> None:
        """End every open session, sorted by id, then every value of a key across sessions."""
        self._tell_unwritable(out)
        for are_keys in (False, True):  # what waits in a session may be the last event of a key
            for session_id in sorted(one for one in self._kept.ids() if (one[0] == RESERVED) is are_keys):
                self._release(self._touched.get(session_id) or self._kept.load(session_id), inf, out)
                session = self._touched.get(session_id)
                if session is None:
                    continue
                if session.life is not LIVE:
                    self._close_earlier(session, out)
                    self._kept.drop(session)
                    continue
                # Nothing more will come: deadlines fire as they would for a session that stays idle on a stream.
                time = None if session.time is None else session.now + self._engine.idle_of(session_id)
                self._end(session, "end_of_input", out, time=time)

    # Rules whose key spans sessions.

    def _show_across(
        self,
        event: Event,
        session: Session,
        out: Findings,
        objections: Objections | None,
        groups: tuple[CrossSessionRules, ...],
    ) -> None:
        """Run rules whose key spans sessions over the event, each with the state of its key value."""
        forward = self._forward
        if forward is not None and groups is not self._engine.cross_session:
            return  # whoever gets the event runs all rules of its key over it
        for group in groups:
            key_id = group.key_id(event)
            if key_id is None:
                self._engine.count_keyless(group, event, session, objections)
            elif forward is not None:
                forward(key_id, event, session.turns, session.memory, group.index.plan(event) is not None)
            else:
                self._feed_key(group, key_id, event, session.turns, session.memory, out, objections)

    def feed_key(self, key_id: str, event: Event, turns: int, memory: Set[int]) -> list[Finding]:
        """Judge an event that another judge forwarded for a key value; nothing where no rule has that key any more."""
        out: Findings = []
        group = self._group_of(key_id)
        if group is not None:
            self._feed_key(group, key_id, event, turns, memory, out)
        return out

    def _feed_key(
        self,
        group: CrossSessionRules,
        key_id: str,
        event: Event,
        turns: int,
        memory: Set[int],
        out: Findings,
        objections: Objections | None = None,
    ) -> None:
        """Run the rules of one key value over an event. ``turns`` and ``memory`` are those of the event's session."""
        kept = self._touched.get(key_id) or self._load(key_id, event, out)
        if kept.life is not LIVE:
            kept = self._wake(kept, event)
        key_state = kept
        if event.time is not None and self.clock.is_credible(event.time):
            key_state = self._move_key(kept, event.time, out)
            kept = self._touched[key_id]
        key_state.seq += 1
        key_state.turns = turns
        key_state.note_last(event)
        plan = group.index.plan(event)
        if plan is not None:
            self._run_across(plan, event, key_state, memory, out, objections)
        if self._shares_clock:
            now = key_state.now
            key_state.lag = self.clock.now - now if self.clock.now > now > -inf else 0.0
            self._kept.schedule(kept)

    def _run_across(
        self,
        plan: Plan,
        event: Event,
        key_state: Session,
        memory: Set[int],
        out: Findings,
        objections: Objections | None,
    ) -> None:
        """Run a plan over an event whose attempt has another number here than in its session, and in what is found."""
        known = event.attempt if isinstance(event, ToolCall | ToolResult | GateDecision) else -1
        if known < 0:
            self._engine.run(plan, event, key_state, memory, out, objections)
            return
        shown = replace(event, attempt=attempt_across(event.session_id, known))
        found: Findings = []
        self._engine.run(plan, shown, key_state, memory, found, objections)
        out += [replace(one, attempt=known) if one.attempt >= 0 else one for one in found]

    def _move_key(self, key_state: Session, time: float, out: Findings) -> Session:
        """Move the clock of a key value to an event; return the life that the event belongs to.

        A pause of a key opens a life of its own, and events from before the pause go on with the earlier one. So no
        source lets the limits of others begin anew. The end of the earlier one is judged when the pause is certain.
        """
        idle, earlier = self._engine.idle_of(key_state.id), key_state.earlier
        if earlier is not None and time < key_state.now and time - earlier.now < idle:
            key_state, earlier.life = earlier, LIVE
        elif time - key_state.now >= idle and key_state.now > -inf:
            before = key_state
            is_certain = not self._shares_clock or self.clock.has_passed(before.now + idle)
            if is_certain:
                self._close_earlier(before, out)
                earlier = None
            key_state = self._open_again(before, time)
            key_state.earlier = before
            if is_certain or earlier is not None:
                self._close_earlier(key_state, out)
            # Of two pauses that are not certain, the first one stands: what came before it goes on.
            key_state.earlier = earlier or key_state.earlier
        if time >= key_state.now:
            self._engine.fire(key_state, time, out)
        key_state.now = max(key_state.now, time)
        return key_state

    def _pass_earlier(self, key_state: Session, out: Findings) -> None:
        """Let the life before a pause meet its deadlines and its end, and forget it, by the shared clock."""
        earlier = key_state.earlier
        if earlier is None or self._kept.deadline(earlier) > self.clock.now:
            return
        silent = self.clock.now - earlier.lag - earlier.now
        if earlier.life is not LIVE:
            key_state.earlier = None
        elif silent >= self._engine.idle_of(earlier.id):
            self._close_earlier(key_state, out)
        else:
            self._engine.fire(earlier, earlier.now + silent, out, after=earlier.now)

    def _close_earlier(self, key_state: Session, out: Findings) -> None:
        """Judge the end of the life before a pause, once."""
        earlier = key_state.earlier
        if earlier is not None and earlier.life is LIVE:
            idle = self._engine.idle_of(earlier.id)
            self._close(earlier, "idle", out, time=earlier.now + idle)
            earlier.life, earlier.earlier = RESTING, None
            earlier.lag = max(earlier.lag, self.clock.now - idle - earlier.now)

    # What a gate asks, and what is stored.

    def ask(self, attempt: ToolCall) -> Counted:
        """Judge one question about an attempt, before its tool runs.

        An attempt that was counted before is not counted again: what rules have against it is kept with the open call.
        Where nothing is kept, or another policy judged it, it is judged as an attempt of its own.
        """
        attempt = read_attempt(attempt if attempt.asked else replace(attempt, asked=True))
        out: Findings = []
        counted = self._feed_now(attempt, out)
        # A call that another policy judged may have been announced several times, and each may be taken for this one.
        while counted is None or counted.opened.objections is None:
            if counted is not None:
                self._forget_call(attempt.session_id, counted.opened)
            attempt = replace(attempt, event_id="")
            counted = self._feed_now(attempt, out)
        counted.findings = out
        return counted

    def _feed_now(self, attempt: ToolCall, out: Findings) -> Counted | None:
        """Judge a question, and all that its session holds back: the caller waits. Return what it was counted as."""
        judged = self.feed(attempt)
        out += judged.findings
        counted = judged if isinstance(judged, Counted) else None
        session = self._touched.get(attempt.session_id)
        if session is None or session.waiting is None:
            return counted
        return self._release(session, inf, out, attempt) or counted

    def _find_counted(self, event: Event, session: Session, out: Findings) -> Counted | None:
        """Return the open call that was counted under the id of a question's event, with its tool and arguments.

        None where a gate gave its answer too long ago: nobody knows what has run since.
        """
        if type(event) is not ToolCall or not event.asked:
            return None
        # Where another event had its id, it was counted under one that is made from its content.
        renamed = replace(event, event_id=own_id(event, self._timed))
        call = self._tracker.find_question(event, session) or self._tracker.find_question(renamed, session)
        return None if call is None else Counted(out, event, call, is_repeat=True, asked_again=True)

    def note_answer(self, decision: GateDecision) -> None:
        """Take note of what the gate of this judge answered to a question."""
        session = self._kept.find(decision.session_id)
        call = session.calls.find_asked(decision) if session is not None else None
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
        return self._is_redelivered(event, session, content_digest(event, self._timed, session.lasting.ids.seed))

    def _forget_call(self, session_id: str, call: OpenCall) -> None:
        """Forget an open call, so that it is judged anew."""
        session = self._touched.get(session_id)
        if session is not None and any(known is call for known in session.calls.by_id.get(call.call_id, ())):
            session.calls.drop(call)

    def rows_of(self, event: Event) -> list[str]:
        """Return the names of the rows that an event will be folded into: its session, and values of keys."""
        keys = (group.key_id(event) for group in self._engine.cross_session)
        return [event.session_id, *(key_id for key_id in keys if key_id is not None)]

    def share_rows(self) -> None:
        """Keep in rows what other processes need that judge by them, maybe under another policy."""
        self._kept.share()

    def drop_idle(self, now: float, *, stored: bool = False) -> list[Finding]:
        """End the sessions that no event goes on with any longer, where no shared clock closes them.

        ``stored``: also those that are not in memory, which takes a look at every row.
        """
        out: Findings = []
        self.found = out
        for session in self._kept.find_idle(now, stored=stored):
            if session.life is LIVE:
                self._end(session, "idle", out, time=session.now + self._engine.idle_of(session.id))
            else:
                self._close_earlier(session, out)
                self._kept.drop(session)
        return out

    def drop_memory(self) -> None:
        """Forget what is in memory: the store knows better."""
        self._kept.drop_memory()

    def states_of(self, session_id: str) -> list[State]:
        """Return the rules' states of a session, for tests and for explanations."""
        session = self._kept.find(session_id)
        return [slot.state for slot in session.slots.values()] if session is not None else []

    def preview_end(self, session_id: str) -> list[Finding]:
        """Return what each rule would find if the session ended now; it goes on as if nobody had asked.

        One that nobody knows has done nothing yet and owes everything: whoever asks vouches for it. One that is closed
        ends no more. Rules in shadow mode are left out, and a cooldown keeps nothing back.
        """
        # Compiled once more: neither the counters of these rules nor their doubts may change.
        preview = self._preview = self._preview or Judge(self.policy, self.limits, mode=self.mode)
        session, rows = self._kept.find(session_id) or Session(session_id), _Rows()
        if session.seq == 0 and session.end_judged < 0:  # nothing is known of it, or of its next life
            session = Session(session_id)
        if session.life is not LIVE:
            return []
        copy = unpack(session_id, pack(session, self._engine), self._engine, Counts())
        if copy is not None:
            copy.seq = max(1, copy.seq)
            for slot in copy.slots.values():
                slot.last = None
            rows.put(session_id, pack(copy, preview._engine), None)  # noqa: SLF001  # of its own class
        found = Judge(preview, store=rows, counts=Counts()).end(session_id)
        return [finding for finding in found if finding.at == "end" and not finding.shadow]

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

    def changes(self) -> list[Row]:
        """Return the rows to write since the last call, so that a judge that loads all rows goes on with them.

        A judge over a store of the caller's has written them there by ``commit``.
        """
        self.commit()
        clock: Row = (_CLOCK, repr(self.watermark).encode(), None)
        return [*self._rows.take_changes(), clock]

    def load(self, rows: Iterable[Row]) -> None:
        """Go on with the rows that another judge returned as changes."""
        self._kept.leave()
        for name, blob, deadline in rows:
            if name == _CLOCK and blob is not None:
                self.watermark = float(blob)
            elif blob is None:
                self._rows.drop(name)
            else:
                self._rows.put(name, blob, deadline)
        self._rows.take_changes()
        self._open(self._engine)


class _Rows:
    """Rows in memory, and which of them have changed."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[bytes, float | None]] = {}
        self._changed: dict[str, None] = {}

    def get(self, name: str) -> bytes | None:
        row = self._rows.get(name)
        return None if row is None else row[0]

    def put(self, name: str, blob: bytes, deadline: float | None) -> None:
        self._rows[name] = (blob, deadline)
        self._changed[name] = None

    def drop(self, name: str) -> None:
        self._rows.pop(name, None)
        self._changed[name] = None

    def deadlines(self) -> Iterator[tuple[str, float | None]]:
        for name, (_, deadline) in list(self._rows.items()):
            yield name, deadline

    def take_changes(self) -> list[Row]:
        changed, self._changed = self._changed, {}
        return [(name, *self._rows.get(name, (None, None))) for name in changed]
