"""States of keys that span sessions: one for each value of a key, with a clock of its own, kept like a session."""

from __future__ import annotations

from collections.abc import Set
from math import inf

from stream_guard.judge.clock import SharedClock
from stream_guard.judge.cross_session import CrossSessionRules
from stream_guard.judge.evaluation import Findings, Objections
from stream_guard.judge.eviction import Eviction
from stream_guard.judge.fold import Engine
from stream_guard.judge.kept import KeptSessions
from stream_guard.judge.lifecycle import Lifecycle
from stream_guard.judge.model import Event
from stream_guard.judge.session import Session


class KeyedStates:
    """Runs the rules of a key over events of many sessions, each event with the state of its key value."""

    def __init__(
        self,
        engine: Engine,
        kept: KeptSessions,
        lifecycle: Lifecycle,
        eviction: Eviction,
        clock: SharedClock,
        *,
        shared: bool,
    ) -> None:
        self._kept = kept
        self._lifecycle = lifecycle
        self._eviction = eviction
        self._clock = clock
        self._shared_clock = shared
        self.use(engine)

    def use(self, engine: Engine) -> None:
        """Switch to another policy."""
        self._engine = engine

    def feed(
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
        key_state = self._kept.touched.get(key_id) or self._load(key_id, event, out)
        if key_state.resting:
            key_state = self._lifecycle.wake(key_state, event)
        if event.time is not None and self._clock.is_credible(event.time):
            key_state = self._move(group, key_state, event, event.time, out)
        self._judge(group, key_state, event, turns, memory, out, objections)
        if self._shared_clock:
            now = key_state.now
            key_state.lag = self._clock.now - now if self._clock.now > now > -inf else 0.0
            self._kept.schedule(key_state)

    def _load(self, key_id: str, event: Event, out: Findings) -> Session:
        """Load or create the state of a key value, and evict a session beyond the limit."""
        key_state = self._kept.load(key_id, event)
        if self._kept.is_crowded():
            self._eviction.make_space(key_id, event, out)
        return key_state

    def _move(self, group: CrossSessionRules, key_state: Session, event: Event, time: float, out: Findings) -> Session:
        """Move the clock of a key value to an event; return the state that the event belongs to."""
        before, jump = key_state.before, key_state.jump
        idle = self._engine.idle_of(key_state.id)
        if time < key_state.now and before is not None and time - before.now < idle:
            before.lag, before.scheduled = key_state.lag, inf
            self._kept.touched[before.id] = key_state = before
            if jump is not None:
                self._judge(group, key_state, jump, key_state.turns, frozenset(), out)
        else:
            key_state.forget_before(time - idle)
        if time - key_state.now >= idle and key_state.now > -inf:
            key_state = self._lifecycle.renew(key_state, out)
            key_state.jump = event
        self._engine.fire(key_state, time, out)
        key_state.now = max(key_state.now, time)
        return key_state

    def _judge(
        self,
        group: CrossSessionRules,
        key_state: Session,
        event: Event,
        turns: int,
        memory: Set[int],
        out: Findings,
        objections: Objections | None = None,
    ) -> None:
        key_state.turns = turns
        key_state.note_last(event)
        plan = group.index.plan(event)
        if plan is not None:
            self._engine.run_twinned(plan, event, key_state, memory, out, objections)
            if key_state.cut:
                self._engine.doubt_cut(plan, event, key_state, memory, objections)
