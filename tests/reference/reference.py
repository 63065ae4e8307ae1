"""The judge, slow and obvious: what ``stream_guard`` must find, written from the pages of the specification.

Rules are black boxes. Everything that the judge adds to them stands here: which session and which life of it, what is
a redelivery, what is one attempt, turns, parts, keys, cooldown, ``for``, deadlines, ends, time and identities. It has
no limits, no index and no storage. ``texts`` of a rule is not used: it only saves time.

Left out: rules that stop, rules of agents, judges, lookalikes, JSON inside texts, ``captured: false``, named parts.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Any

import msgspec

from stream_guard.judge.model import (
    Event,
    GateDecision,
    Hit,
    Scope,
    SessionEnd,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)
from stream_guard.judge.spec import Policy, RuleSpec
from tests.reference.kept import Attempt, Found, Item, Place, Session, Slot
from tests.reference.reading import (
    HANDLERS,
    call_of_block,
    exact,
    holds,
    key_values,
    looks_at,
    overrides,
    read_response,
    same,
)


class Reference:
    """The judge of one policy. In mode "stream" every stamp moves a clock that all share; in "batch" none does."""

    def __init__(self, policy: Policy, mode: str) -> None:
        self.policy, self.shares_clock = policy, mode == "stream"
        self.shared: float | None = None
        self.sessions: dict[str, Session] = {}
        self.keys: dict[Any, Place] = {}
        self.attempt_numbers = 0
        self.found: list[Found] = []
        self.told: set[Any] = set()
        self.met: Counter[str] = Counter()

    # -- what comes in

    def feed(self, event: Event) -> list[Found]:
        session = self.sessions.setdefault(event.session_id, Session(event.session_id))
        identity = self._identity(event, session)
        if identity in session.seen:
            self.met["redelivered"] += 1
            return []
        if event.event_id and any(known[1] == event.event_id for known in session.seen):
            self.met["id again, other content"] += 1
        session.seen.add(identity)
        if event.time is not None:
            self._share(event.time)
        self._arrive(session, Item(event, identity))
        return self._take_found()

    def advance(self, time: float) -> list[Found]:
        self._share(time)
        return self._take_found()

    def end_all(self) -> list[Found]:
        for places in (self.sessions, self.keys):  # a session's last event may be the last of a key
            for place in [place for _, place in sorted(places.items(), key=lambda item: repr(item[0]))]:
                self._believe(place)
                if not place.is_over:
                    self._end_idle(place)
        return self._take_found()

    def _take_found(self) -> list[Found]:
        found, self.found = self.found, []
        return found

    def _identity(self, event: Event, session: Session) -> Any:
        content = exact([type(event).__name__, msgspec.structs.asdict(event)])
        if event.event_id:
            return ("named", event.event_id, content)
        session.unnamed[content] += 1
        return ("unnamed", "", content, session.unnamed[content])

    # -- time

    def _share(self, time: float) -> None:
        """Move the clock that all share; what is silent meets its deadlines and its end, by its own distance."""
        if not self.shares_clock or (self.shared is not None and time <= self.shared):
            return
        self.shared = time
        for place in [*self.sessions.values(), *self.keys.values()]:
            if place.clock is None:
                continue
            if place.closed_at is not None:
                if time >= place.closed_at + self._idle(place):  # nothing came that shows that it goes on
                    self._begin_life(place)
            elif time - place.lag >= place.clock + self._idle(place):
                self.met["ended by the clock of others"] += 1
                if not place.is_over:
                    self._end_idle(place)
                place.closed_at = time
            else:
                self._fire_deadlines(place, time - place.lag, after=place.clock)

    def _idle(self, place: Place) -> float:
        """How long a silence ends a place. A key across sessions lives as long as its rules look back."""
        rules = [spec for spec in self.policy.rules if not isinstance(place, Session) and spec.key == place.key]
        spans = [spec.params.get(name, 0.0) for spec in rules for name in ("within_seconds", "window_seconds")]
        return float(max([self.policy.idle, *spans]))

    def _arrive(self, place: Place, item: Item) -> None:
        """Take an event of a session, or of a key: at once, or when it is known whether there was a pause."""
        time = item.event.time
        if (waiting := place.waiting) is not None:
            if time is None or waiting.event.time is None or time >= waiting.event.time - self._idle(place):
                self._believe(place)
            else:
                self.met["stamp not believed"] += 1
                place.waiting = None
                self._show(place, waiting)  # in the old life, whose clock stays as it is
        silence = 0.0 if time is None or place.clock is None else time - place.clock
        if silence >= self._idle(place):
            self.met["exactly idle" if silence == self._idle(place) else "longer than idle"] += 1
            if not self.shares_clock:
                place.waiting = item
                return
            self._begin_life(place)
        elif place.closed_at is not None and time is None:
            self._begin_life(place)
        self._take(place, item)

    def _believe(self, place: Place) -> None:
        """The event that waits came after a pause."""
        if (waiting := place.waiting) is not None:
            place.waiting = None
            self._begin_life(place)
            self._take(place, waiting)

    def _begin_life(self, place: Place) -> None:
        """End what is still open, and begin anew."""
        if not place.is_over:
            self._end_idle(place)
        if isinstance(place, Session):
            place.begin_life()
        place.clock, place.slots, place.opened, place.unread = None, [], set(), set()
        place.is_over, place.closed_at = True, None  # until the first event: an explicit end has nothing to say

    def _take(self, place: Place, item: Item) -> None:
        """Move the clock of the place, then show it the event; deadlines come first."""
        time = item.event.time
        if place.is_over and not isinstance(item.event, SessionEnd):
            self.met["went on after its end"] += place.clock is not None
            place.is_over, place.closed_at = False, None
        if time is not None:
            self.met["late"] += place.clock is not None and time < place.clock
            place.clock = time if place.clock is None else max(place.clock, time)
            self._fire_deadlines(place, time)
        if place.clock is not None and self.shared is not None:
            place.lag = self.shared - place.clock
        self._show(place, item)

    def _show(self, place: Place, item: Item) -> None:
        if not isinstance(item.event, SessionEnd):
            place.is_over, place.closed_at = False, None
        if not isinstance(place, Session):
            place.id = item.event.session_id
            self._always(place)
            self._ask_rules(place, item)
        elif isinstance(item.event, SessionEnd):
            self._end_explicitly(place, item)
        else:
            self._judge_session(place, item)

    # -- ends and deadlines

    def _fire_deadlines(self, place: Place, until: float, after: float = -inf) -> None:
        """Call the rules whose deadlines are due, in order of time.

        What a late event made due before the clock waits for an event at or after it, or for the end: a deadline fires
        early for nobody, and not because others spoke.
        """
        while not place.is_over:
            due = [(time, slot) for slot in place.slots if (time := slot.spec.rule.deadline(slot.state)) is not None]
            due = [(time, slot) for time, slot in due if after < time <= until]
            if not due:
                return
            time, slot = min(due, key=lambda one: one[0])
            self.met["deadline"] += 1
            hit = slot.spec.rule.on_deadline(time, slot.state)
            self._tell(slot, hit, place, "deadline", time, ("deadline", time), None)

    def _end_idle(self, place: Place) -> None:
        end = None if place.clock is None else place.clock + self._idle(place)
        if end is not None:
            self._fire_deadlines(place, end)
        self._end(place, place.slots, end, ("end", end))
        place.is_over = True

    def _end_explicitly(self, session: Session, item: Item) -> None:
        if session.is_over:
            self.met["end after the end"] += 1
            return
        self._always(session)
        self._end(session, session.slots, session.clock, ("end", session.clock, item.about))  # no end goes back in time
        session.is_over = True

    def _end(self, place: Place, slots: list[Slot], time: float | None, about: Any) -> None:
        end = SessionEnd(session_id=place.id, time=time)
        for slot in slots:
            has_gate = slot.spec.when is not None or slot.spec.unless is not None
            if slot.state == slot.spec.rule.state_type() and not slot.ends_blank:
                continue  # it has seen nothing, so that it might as well not be there
            if not has_gate or (slot.spec.slot, slot.address) in place.opened - place.unread:
                self._tell(slot, slot.spec.rule.on_session_end(end, slot.state), place, "end", time, about, None)

    # -- what rules see

    def _judge_session(self, session: Session, item: Item) -> None:
        """Stamp the event and show it to the rules; a turn is followed by the calls in it."""
        event, identity = item.event, item.about
        self._begin_part(session, event)
        if isinstance(event, Turn):
            session.index += 1
            text, calls = read_response(event)
            tools = tuple(call["name"] for call in calls)
            session.turn = turn = msgspec.structs.replace(event, index=session.index, text=text, tools=tools)
            self._judge(session, turn, identity)
            for call in calls:
                self._judge_call(session, call_of_block(turn, call), by_block=True)
        elif isinstance(event, ToolCall):
            self._judge_call(session, msgspec.structs.replace(event, index=session.index), by_block=False)
        elif isinstance(event, ToolResult | GateDecision):
            self._judge(session, self._answered(session, event), identity)
        elif isinstance(event, UserMessage):
            session.user = event
            self._judge(session, msgspec.structs.replace(event, index=session.index), identity)

    def _begin_part(self, session: Session, event: Event) -> None:
        """Begin a part where a user begins one; what has no call and no turn in it yet is no part."""
        begins = False
        if isinstance(event, UserMessage):
            begins, session.user_waits = True, True
        elif isinstance(event, Turn):
            if event.request is not None and not session.user_waits:
                before = None if session.turn is None else session.turn.response.get("stop_reason")
                messages = event.request.get("messages") or [{"role": "user"}]
                was_final = before is not None and before not in {"tool_use", "tool_calls"}
                begins = messages[-1]["role"] == "user" or was_final
            session.user_waits = False
        if begins and session.part_has_acts:
            self.met["new part"] += 1
            over = [slot for slot in session.slots if slot.spec.scope is Scope.PART]
            self._end(session, over, session.clock, ("part", session.part, session.clock))
            session.slots = [slot for slot in session.slots if slot not in over]
            session.part, session.part_has_acts = session.part + 1, False
        session.part_has_acts = session.part_has_acts or isinstance(event, Turn | ToolCall)
        self._always(session)

    def _judge_call(self, session: Session, call: ToolCall, *, by_block: bool) -> None:
        """Judge an attempt once, whichever told of it first, and however often."""
        content = (call.tool, same(call.args))
        alike = [one for one in session.attempts if one.is_open and (one.call.tool, same(one.call.args)) == content]
        alike = [one for one in alike if "" in (call.call_id, one.call.call_id) or call.call_id == one.call.call_id]
        alike.sort(key=lambda one: one.call.call_id != call.call_id)  # the same id before none; else the oldest
        other = [one for one in alike if not (one.by_block if by_block else one.by_event)]
        if other:
            self.met["block after its call" if by_block else "call after its block"] += 1
            other[0].by_block = other[0].by_event = True
            return
        if not by_block and any(one.by_event and call.call_id == one.call.call_id != "" for one in alike):
            self.met["call told again"] += 1
            return
        counted = (call.call_id, *content)
        session.tried[counted] += 1
        self.attempt_numbers += 1
        stamped = msgspec.structs.replace(call, attempt=self.attempt_numbers)
        identity = ("attempt", *counted, session.tried[counted])
        session.attempts.append(Attempt(stamped, identity, by_block=by_block, by_event=not by_block))
        self._judge(session, stamped, identity)

    def _answered(self, session: Session, event: ToolResult | GateDecision) -> Event:
        """Return a result or a decision with what is known of its attempt: the latest open one."""
        for one in reversed(session.attempts):
            is_it = one.call.call_id == event.call_id if event.call_id else one.call.tool == event.tool
            if one.is_open and is_it:
                one.is_open = isinstance(event, GateDecision)
                call = one.call
                tool = event.tool or call.tool
                return msgspec.structs.replace(event, attempt=call.attempt, index=call.index, tool=tool, args=call.args)
        return msgspec.structs.replace(event, attempt=-1, index=session.index)

    def _judge(self, session: Session, event: Event, about: Any) -> None:
        """Show a stamped event to the rules of its session, and to every key that it has a value for."""
        item = Item(event, about, session.turn, session.user)
        self._ask_rules(session, item)
        for key in sorted({spec.key for spec in self.policy.rules if "session" not in spec.key}):
            if (values := key_values(key, event)) is not None:
                self.met["key across sessions"] += 1
                place = self.keys.setdefault((key, values), Place(event.session_id, key, values))
                self._arrive(place, item)

    def _always(self, place: Place) -> None:
        """Give a session, each part of it, and the key `all` the slots that end even if they saw nothing."""
        for spec in self.policy.rules:
            if spec.key != place.key or spec.key not in {("session",), ("all",)} or spec.scope is Scope.RUN:
                continue
            if spec.scope is Scope.SESSION or not isinstance(place, Session):
                self._slot(spec, place, ()).ends_blank = True
            elif place.part_has_acts:
                self._slot(spec, place, (place.part,)).ends_blank = True

    def _slot(self, spec: RuleSpec, place: Place, address: tuple[Any, ...]) -> Slot:
        for slot in place.slots:
            if slot.spec is spec and slot.address == address:
                return slot
        place.slots.append(Slot(spec, address, spec.rule.state_type()))
        return place.slots[-1]

    def _ask_rules(self, place: Place, item: Item) -> None:
        event = item.event
        for spec in self.policy.rules:
            address = self._address(spec, place, item)
            if address is None:
                self.met["no value for a key"] += not isinstance(place, Session) or "session" in spec.key
                continue
            when = spec.when is None or holds(spec.when.source, event, item.turn, item.user)
            unless = spec.unless is not None and holds(spec.unless.source, event, item.turn, item.user)
            is_open, looks = when is True and unless is False, looks_at(spec.rule, event)
            if looks and (when is None or unless is None):
                place.unread.add((spec.slot, address))
            if is_open and (looks or isinstance(event, Turn)):
                place.opened.add((spec.slot, address))
            if looks and (is_open or overrides(spec.rule, "on_ungated")):
                handler = HANDLERS[type(event)] if is_open else "on_ungated"
                self._ask(self._slot(spec, place, address), place, item, handler)

    def _address(self, spec: RuleSpec, place: Place, item: Item) -> tuple[Any, ...] | None:
        """Return which state of a rule an event is for; None where it is for none of this place."""
        if not isinstance(place, Session):
            return () if spec.key == place.key else None
        inside = tuple(part for part in spec.key if part != "session")
        values = key_values(inside, item.event) if "session" in spec.key else None
        if values is None or spec.scope is Scope.SESSION:
            return values
        return (*values, place.part if spec.scope is Scope.PART else item.event.run_id)

    def _ask(self, slot: Slot, place: Place, item: Item, handler: str) -> None:
        event, about = item.event, item.about
        answer = getattr(slot.spec.rule, handler)(event, slot.state)
        hit = answer if isinstance(answer, Hit) else None
        if slot.spec.hold is not None and handler != "on_ungated":
            if hit is None:
                slot.hits_since = None
            elif slot.hits_since is None:
                slot.hits_since = event.time
            if hit is not None and (event.time or 0.0) - (slot.hits_since or 0.0) < slot.spec.hold:
                self.met["held by `for`"] += 1
                hit = None
        self._tell(slot, hit, place, "event", event.time, (event.session_id, about), event.index)

    def _tell(
        self, slot: Slot, hit: Hit | None, place: Place, at: str, time: float | None, about: Any, index: int | None
    ) -> None:
        """Make a hit a finding, unless its cooldown holds it back."""
        if hit is None:
            return
        cooldown = slot.spec.cooldown
        if None not in (cooldown, slot.told_at, time) and abs(time - slot.told_at) < cooldown:  # type: ignore[operator]
            self.met["held back by a cooldown"] += 1
            return
        slot.told_at = time
        session = place.id if isinstance(place, Session) or at == "event" else ""
        identity = (slot.spec.slot, session, place.key, place.values, slot.address, at, about)
        if identity in self.told:
            return
        self.told.add(identity)
        at_turn = hit.index if hit.index is not None else index
        self.found.append(Found(identity, slot.spec.slot, at, session, time, at_turn, hit.detail))
