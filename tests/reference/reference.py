"""The judge, slow and obvious: what ``stream_guard`` must find, written from the pages of the specification.

Rules are black boxes. Everything that the judge adds to them stands here: which session and which life of it, what is
a redelivery, what is one attempt, turns, parts, keys, cooldown, ``for``, deadlines, ends, time and identities.

Left out: rules that stop, rules of agents, judges, lookalikes, JSON inside texts, ``captured: false``, named parts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf
from typing import Any

from msgspec.structs import replace

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
from tests.reference.reading import HANDLERS, holds, key_values, looks_at, overrides, read_response, same, told_by


@dataclass
class Found:
    """A finding. Two with one identity are one finding."""

    identity: Any
    slot: str
    at: str
    session: str  # empty at deadlines and ends of keys that span sessions
    time: float | None
    index: int | None
    detail: str


@dataclass(frozen=True)
class Item:
    """An event on its way, what a finding at it is about, and what conditions go by."""

    event: Event
    about: Any
    turn: Turn | None = None
    user: UserMessage | None = None


@dataclass
class Slot:
    """What one rule remembers of one address, with what the judge remembers beside it."""

    spec: RuleSpec
    address: tuple[Any, ...]
    state: Any
    opened: bool = False  # its gate was open, or its key had this value: its end is judged
    told_at: float | None = None  # time of the last finding that was told, for the cooldown
    hits_since: float | None = None  # since when each event was a hit, for `for`


@dataclass
class Attempt:
    """One attempt at a tool, told of by a block, by an event, or by both."""

    call: ToolCall
    call_id: str
    by_block: bool
    by_event: bool
    is_open: bool = True


@dataclass
class Life:
    """What has a clock and ends: a session, or one value of a key across sessions, from one long pause to the next."""

    id: str
    key: tuple[str, ...] = ("session",)
    values: tuple[str, ...] = ()
    clock: float | None = None
    lag: float = 0.0  # of its clock behind the shared one, at its last event
    is_over: bool = False  # its end was judged, and nothing came since
    closed_at: float | None = None  # where the shared clock was when it found this silent for too long
    slots: list[Slot] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)  # rules that could not tell whether an event was in their gate


@dataclass
class Session(Life):
    """One life of a session. The counters last as long as its id."""

    seen: set[Any] = field(default_factory=set)
    told: Counter[Any] = field(default_factory=Counter)
    tried: Counter[Any] = field(default_factory=Counter)
    waiting: Item | None = None  # its stamp says that there was a pause, and nothing else does yet
    attempts: list[Attempt] = field(default_factory=list)
    index: int = -1
    part: int = 0
    part_has_acts: bool = False
    user_waits: bool = False
    turn: Turn | None = None
    user: UserMessage | None = None


def has_gate(spec: RuleSpec) -> bool:
    """Whether a rule is asked about some events only."""
    return spec.when is not None or spec.unless is not None


def is_single(spec: RuleSpec) -> bool:
    """Whether a rule has one state in a session, in a part of it, or in everything."""
    return spec.key in {("session",), ("all",)} and spec.scope is not Scope.RUN


class Reference:
    """The judge of one policy. In mode "stream" every stamp moves a clock that all share; in "batch" none does."""

    def __init__(self, policy: Policy, mode: str) -> None:
        self.policy, self.has_shared_clock = policy, mode == "stream"
        self.shared = -inf
        self.sessions: dict[str, Session] = {}
        self.keys: dict[Any, list[Life]] = {}  # the last life, and the one before a pause
        self.attempt_numbers = 0
        self.found: dict[Any, Found] = {}
        self.met: Counter[str] = Counter()

    def feed(self, event: Event) -> None:
        session = self.sessions.setdefault(event.session_id, Session(event.session_id))
        what = told_by(event)
        content = (*what, event.time if event.time is not None else (event.agent, event.run_id))
        if event.event_id and (event.event_id, content) in session.seen:
            self.met["redelivered"] += 1
            return
        self.met["id again, other content"] += event.event_id in [name for name, _ in session.seen if name]
        session.seen.add((event.event_id, content))
        session.told[what] += not event.event_id
        about = (event.event_id or f"number {session.told[what]}", what)
        if self.has_shared_clock and event.time is not None:
            self.shared = max(self.shared, event.time)
        self._arrive(session, Item(event, about))
        self._pass_time()

    def end_all(self) -> list[Found]:
        for name in sorted(self.sessions):
            self._settle(self.sessions[name], inf)
        for life in self._lives():
            self._end_idle(life)
        return list(self.found.values())

    # -- time

    def _lives(self) -> list[Life]:
        return [*self.sessions.values(), *(life for lives in self.keys.values() for life in lives)]

    def _pass_time(self) -> None:
        """Let what is silent meet its deadlines and its end by the shared clock, each by its own distance."""
        for life in self._lives() if self.has_shared_clock else []:
            now, over = self.shared - life.lag, inf if life.clock is None else life.clock + self._idle(life)
            if life.closed_at is not None:
                if self.shared >= life.closed_at + self._idle(life):
                    self._forget(life)
            elif now >= over:
                self.met["ended by the clock of others"] += 1
                self._end_idle(life)
                life.closed_at = self.shared
            elif life.clock is not None:
                self._fire_deadlines(life, now, after=life.clock)

    def _idle(self, life: Life) -> float:
        """How long a silence ends a life. A key across sessions lives as long as its rules look back."""
        rules = [spec for spec in self.policy.rules if not isinstance(life, Session) and spec.key == life.key]
        spans = [spec.params.get(name, 0.0) for spec in rules for name in ("within_seconds", "window_seconds")]
        return float(max([self.policy.idle, *spans]))

    def _forget(self, life: Life) -> None:
        """Forget what nothing went on with in time."""
        if isinstance(life, Session):
            del self.sessions[life.id]
        else:
            self.keys[life.key, life.values].remove(life)

    def _arrive(self, session: Session, item: Item) -> None:
        """Take an event of a session: at once, or when it is known whether there was a pause."""
        event, time = item.event, item.event.time
        session = self._settle(session, inf if time is None else time)
        if isinstance(event, SessionEnd):
            self._end_explicitly(session, item)
            return
        silence = 0.0 if time is None or session.clock is None else time - session.clock
        if silence >= self._idle(session):
            self.met["exactly idle" if silence == self._idle(session) else "longer than idle"] += 1
            if not self.has_shared_clock:
                session.waiting = item
                return
            session = self._begin_anew(session)
        elif session.closed_at is not None and time is None:
            session = self._begin_anew(session)
        self._move(session, time)
        self._judge_session(session, item)

    def _settle(self, session: Session, time: float) -> Session:
        """Judge the event that waits, now that the next one of its session has come at a time."""
        waiting, session.waiting = session.waiting, None
        if waiting is None or waiting.event.time is None:
            return session
        if time >= waiting.event.time - self._idle(session):
            session = self._begin_anew(session)
            self._move(session, waiting.event.time)
            self._judge_session(session, waiting)
        else:
            self.met["stamp not believed"] += 1
            session.is_over = False
            event = replace(waiting.event, time=session.clock)
            self._judge_session(session, Item(event, waiting.about))
        return session

    def _begin_anew(self, session: Session) -> Session:
        self._end_idle(session)
        fresh = Session(session.id, seen=session.seen, told=session.told, tried=session.tried)
        self.sessions[session.id] = fresh
        return fresh

    def _move(self, life: Life, time: float | None) -> None:
        """Move the clock of a life to an event; deadlines come first."""
        self.met["went on after its end"] += life.is_over
        life.is_over, life.closed_at = False, None
        if time is not None and (life.clock is None or time >= life.clock):
            self._fire_deadlines(life, time)
            life.clock = time
        self.met["late"] += time is not None and time != life.clock
        life.lag = 0.0 if life.clock is None else max(0.0, self.shared - life.clock)

    # -- ends and deadlines

    def _fire_deadlines(self, life: Life, until: float, after: float = -inf) -> None:
        """Call the rules whose deadlines are due, in order of time.

        What a late event made due before the clock waits for an event at or after it, or for the end: a deadline fires
        early for nobody, and not because others spoke.
        """
        while not life.is_over:
            due = [(time, slot) for slot in life.slots if (time := slot.spec.rule.deadline(slot.state)) is not None]
            due = [(time, slot) for time, slot in due if after < time <= until]
            if not due:
                return
            time, slot = min(due, key=lambda one: one[0])
            self.met["deadline"] += 1
            hit = slot.spec.rule.on_deadline(time, slot.state)
            self._tell(slot, hit, life, "deadline", time, ("deadline", time), None)

    def _end_idle(self, life: Life) -> None:
        """Judge the end of a life, once for what it has seen."""
        if not life.is_over:
            end = None if life.clock is None else life.clock + self._idle(life)
            self._fire_deadlines(life, inf if end is None else end)
            self._end(life, end, ("end", end))
            life.is_over = True

    def _end_explicitly(self, session: Session, item: Item) -> None:
        """Judge an end that was told, within the idle time; it moves no clock."""
        if session.is_over:
            self.met["end after the end"] += 1
            return
        time, clock = item.event.time, session.clock
        if clock is not None:
            time = clock if time is None else min(max(time, clock), clock + self._idle(session))
        self._fire_deadlines(session, inf if time is None else time)
        self._end(session, time, ("end", time, item.about))
        session.is_over = True

    def _end(self, life: Life, time: float | None, about: Any, *, of_part: bool = False) -> None:
        end = SessionEnd(session_id=life.id, time=time)
        for spec in self.policy.rules:
            if spec.key != life.key if not isinstance(life, Session) else "session" not in spec.key:
                continue
            if of_part and spec.scope is not Scope.PART:
                continue
            self._open_single(spec, life)
            for slot in life.slots:
                if slot.spec is spec and slot.opened and spec.slot not in life.unread:
                    self._tell(slot, spec.rule.on_session_end(end, slot.state), life, "end", time, about, None)

    def _open_single(self, spec: RuleSpec, life: Life) -> None:
        """Let the one state of a session, of a part that has acts, or of the key `all` have an end, whatever it saw."""
        if has_gate(spec) or not is_single(spec):
            return
        if spec.scope is not Scope.PART:
            self._slot(spec, life, ()).opened = True
        elif isinstance(life, Session) and life.part_has_acts:
            self._slot(spec, life, (life.part,)).opened = True

    # -- what rules see

    def _judge_session(self, session: Session, item: Item) -> None:
        """Stamp the event and show it to the rules; a turn is followed by the calls in it."""
        event = item.event
        self._begin_part(session, event)
        if isinstance(event, Turn):
            session.index += 1
            text, blocks = read_response(event)
            tools = tuple(block["name"] for block in blocks)
            session.turn = turn = replace(event, index=session.index, text=text, tools=tools)
            self._judge(session, turn, item.about)
            header = {name: getattr(turn, name) for name in ("session_id", "time", "run_id", "agent", "labels")}
            for block in blocks:
                call = ToolCall(tool=block["name"], call_id=block.get("id", ""), args=block["input"], **header)
                self._judge_call(session, replace(call, index=turn.index), by_block=True)
        elif isinstance(event, ToolCall):
            self._judge_call(session, replace(event, index=session.index), by_block=False)
        elif isinstance(event, ToolResult | GateDecision):
            self._judge(session, self._answered(session, event), item.about)
        elif isinstance(event, UserMessage):
            session.user = event
            self._judge(session, replace(event, index=session.index), item.about)

    def _begin_part(self, session: Session, event: Event) -> None:
        """Begin a part where a user begins one; what has no call and no turn in it yet is no part."""
        begins = isinstance(event, UserMessage)
        if isinstance(event, Turn) and event.request is not None and not session.user_waits:
            before = None if session.turn is None else session.turn.response["stop_reason"]
            messages: Any = event.request.get("messages") or [{"role": "user"}]
            begins = messages[-1]["role"] == "user" or before not in {None, "tool_use"}
        if isinstance(event, Turn | UserMessage):
            session.user_waits = isinstance(event, UserMessage)
        if begins and session.part_has_acts:
            self.met["new part"] += 1
            self._end(session, session.clock, ("part", session.part, session.clock), of_part=True)
            session.slots = [slot for slot in session.slots if slot.spec.scope is not Scope.PART]
            session.part, session.part_has_acts = session.part + 1, False
        session.part_has_acts = session.part_has_acts or isinstance(event, Turn | ToolCall)

    def _judge_call(self, session: Session, call: ToolCall, *, by_block: bool) -> None:
        """Judge an attempt once, whichever told of it first, and however often."""
        known = self._known_attempt(session, call, by_block=by_block)
        if known is not None:
            self.met["block after its call" if by_block else "call told again, or after its block"] += 1
            known.by_block, known.by_event = known.by_block or by_block, known.by_event or not by_block
            known.call_id = known.call_id or call.call_id
            return
        counted = (call.call_id, call.tool, same(call.args))
        session.tried[counted] += 1
        self.attempt_numbers += 1
        call = replace(call, attempt=self.attempt_numbers)
        session.attempts.append(Attempt(call, call.call_id, by_block=by_block, by_event=not by_block))
        self._judge(session, call, ("attempt", *counted, session.tried[counted]))

    def _known_attempt(self, session: Session, call: ToolCall, *, by_block: bool) -> Attempt | None:
        """Return the open attempt that is told of again: the latest of its id, else the oldest where one has none.

        Two blocks are two attempts; two events are one only under one id. Without an id, an attempt of the last two
        turns is meant.
        """
        alike = [one for one in session.attempts if one.is_open and one.call.tool == call.tool]
        alike = [one for one in alike if same(one.call.args) == same(call.args)]
        named = [one for one in alike if one.call_id == call.call_id != ""]
        near = [one for one in alike if "" in (one.call_id, call.call_id) and one.call.index > session.index - 2]
        for one in [*reversed(named), *near]:
            is_told_otherwise = one.by_event and not one.by_block if by_block else one.by_block and not one.by_event
            if is_told_otherwise or (not by_block and one.by_event and one in named):
                return one
        return None

    def _answered(self, session: Session, event: ToolResult | GateDecision) -> Event:
        """Return a result or a decision with what is known of its attempt: the latest open one."""
        for one in reversed(session.attempts):
            is_it = one.call_id == event.call_id if event.call_id else one.call.tool == event.tool
            if one.is_open and is_it:
                one.is_open = isinstance(event, GateDecision)
                call = one.call
                return replace(event, attempt=call.attempt, index=call.index, tool=event.tool, args=call.args)
        return replace(event, attempt=-1, index=session.index)

    def _judge(self, session: Session, event: Event, about: Any) -> None:
        """Show a stamped event to the rules of its session, and to every key that it has a value for."""
        item = Item(event, about, session.turn, session.user)
        self._ask_rules(session, item)
        for key in sorted({spec.key for spec in self.policy.rules if "session" not in spec.key}):
            if (values := key_values(key, event)) is not None:
                self.met["key across sessions"] += 1
                life = self._life_of_key(key, values, event)
                life.id = event.session_id
                self._move(life, event.time)
                self._ask_rules(life, item)

    def _life_of_key(self, key: tuple[str, ...], values: tuple[str, ...], event: Event) -> Life:
        """Return the life of a key's value that an event belongs to: a new one after a pause, or the one before it."""
        lives = self.keys.setdefault((key, values), [])
        time, last = event.time, lives[0] if lives else None
        if last is None or (time is None and last.closed_at is not None):
            lives[:] = [Life(event.session_id, key, values)]
        elif time is not None and last.clock is not None:
            if len(lives) > 1 and time < min(last.clock, (lives[1].clock or 0.0) + self._idle(last)):
                self.met["before the pause of a key"] += 1
                return lives[1]
            if time >= last.clock + self._idle(last):
                for life in reversed(lives):
                    self._end_idle(life)
                last.closed_at = self.shared
                lives[:] = [Life(event.session_id, key, values), last]
        return lives[0]

    def _ask_rules(self, life: Life, item: Item) -> None:
        event = item.event
        for spec in self.policy.rules:
            address = self._address(spec, life, event)
            if address is None:
                continue
            when = spec.when is None or holds(spec.when.source, event, item.turn, item.user)
            unless = spec.unless is not None and holds(spec.unless.source, event, item.turn, item.user)
            is_open, looks = when is True and unless is False, looks_at(spec.rule, event)
            has_clock = "clock" not in spec.rule.needs() or event.time is not None
            if looks and (when is None or unless is None or not has_clock):
                life.unread.add(spec.slot)
            if is_open and ((has_gate(spec) and (looks or isinstance(event, Turn))) or (looks and not is_single(spec))):
                self._slot(spec, life, address).opened = True
            if looks and has_clock and (is_open or overrides(spec.rule, "on_ungated")):
                handler = HANDLERS[type(event)] if is_open else "on_ungated"
                self._ask(self._slot(spec, life, address), life, item, handler)

    def _address(self, spec: RuleSpec, life: Life, event: Event) -> tuple[Any, ...] | None:
        """Return which state of a rule an event is for; None where it is for none of this life."""
        if not isinstance(life, Session):
            return () if spec.key == life.key else None
        values = key_values(spec.key, event) if "session" in spec.key else None
        if values is None or spec.scope is Scope.SESSION:
            return values
        return (*values, life.part if spec.scope is Scope.PART else event.run_id)

    def _slot(self, spec: RuleSpec, life: Life, address: tuple[Any, ...]) -> Slot:
        for slot in life.slots:
            if slot.spec is spec and slot.address == address:
                return slot
        life.slots.append(Slot(spec, address, spec.rule.state_type()))
        return life.slots[-1]

    def _ask(self, slot: Slot, life: Life, item: Item, handler: str) -> None:
        event = item.event
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
        self._tell(slot, hit, life, "event", event.time, (event.session_id, item.about), event.index)

    def _tell(
        self, slot: Slot, hit: Hit | None, life: Life, at: str, time: float | None, about: Any, index: int | None
    ) -> None:
        """Make a hit a finding, unless its cooldown holds it back."""
        if hit is None:
            return
        since = inf if slot.told_at is None or time is None else abs(time - slot.told_at)
        if slot.spec.cooldown is not None and since < slot.spec.cooldown:
            self.met["held back by a cooldown"] += 1
            return
        slot.told_at = slot.told_at if time is None else time
        session = life.id if isinstance(life, Session) or at == "event" else ""
        identity = (slot.spec.slot, session, life.key, life.values, slot.address, at, about)
        at_turn = hit.index if hit.index is not None else index
        self.found.setdefault(identity, Found(identity, slot.spec.slot, at, session, time, at_turn, hit.detail))
