"""The judge, slow and obvious: what ``stream_guard`` must find, written from the pages of the specification.

Rules are black boxes. Everything that the judge adds to them stands here: which session and which life of it, what is
a redelivery, what is one attempt, turns, parts, keys, cooldown, ``for``, deadlines, ends, time and identities.

Left out: rules that stop, rules of agents, judges, lookalikes, JSON inside texts, ``captured: false``, named parts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import Any

from msgspec.structs import replace

import stream_guard as sg
from stream_guard.judge.model import Event
from stream_guard.judge.spec import Policy, RuleSpec
from tests.reference import reading as read


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

    call: sg.ToolCall
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
    shown: int = 0  # how many events rules were shown
    clock: float | None = None
    lag: float = 0.0  # of its clock behind the shared one, at its last event
    is_over: bool = False  # its end was judged, and nothing came since
    closed_at: float | None = None  # where the shared clock was when it found this silent for too long
    slots: list[Slot] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)  # rules that could not tell whether an event was in their gate


@dataclass
class Session(Life):
    """One life of a session. The first two fields last as long as its id."""

    seen: set[Any] = field(default_factory=set)
    told: Counter[Any] = field(default_factory=Counter)  # of attempts, and of events without an id
    waiting: tuple[Event, Any] | None = None  # its stamp says that there was a pause, and nothing else does yet
    attempts: list[Attempt] = field(default_factory=list)
    index: int = -1
    part: int = 0
    part_has_acts: bool = False
    user_waits: bool = False
    turn: sg.Turn | None = None
    user: sg.UserMessage | None = None


class Reference:
    """The judge of one policy. In mode "stream" every stamp moves a clock that all share; in "batch" none does."""

    def __init__(self, policy: Policy, mode: str) -> None:
        self.policy, self.has_shared_clock = policy, mode == "stream"
        self.shared = -inf
        self.sessions: dict[str, Session] = {}
        self.keys: dict[Any, list[Life]] = {}  # the last life, and the one before a pause
        self.found: dict[Any, Found] = {}
        self.numbers = count()  # of attempts, whatever session they are of
        self.met: Counter[str] = Counter()

    def feed(self, event: Event) -> None:
        session = self.sessions.setdefault(event.session_id, Session(event.session_id))
        what = read.told_by(event)
        content = (what, event.time if event.time is not None else (event.agent, event.run_id))
        if event.event_id and (event.event_id, content) in session.seen:
            self.met["redelivered"] += 1
            return
        self.met["id again, other content"] += event.event_id in [name for name, _ in session.seen if name]
        session.seen.add((event.event_id, content))
        session.told[what] += not event.event_id
        says_nothing = session.is_over and isinstance(event, sg.SessionEnd)
        if self.has_shared_clock and event.time is not None and not says_nothing:
            self.shared = max(self.shared, event.time)
        self._arrive(session, event, (event.event_id or session.told[what], what))
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

    def _idle(self, life: Life) -> float:
        """How long a silence ends a life. A key across sessions lives as long as its rules look back."""
        rules = [spec for spec in self.policy.rules if not isinstance(life, Session) and spec.key == life.key]
        spans = [spec.params.get(name, 0.0) for spec in rules for name in ("within_seconds", "window_seconds")]
        return float(max([self.policy.idle, *spans]))

    def _pass_time(self) -> None:
        """Let what is silent meet its deadlines and its end by the shared clock, each by its own distance."""
        for life in self._lives() if self.has_shared_clock else []:
            if life.closed_at is not None:
                if self.shared >= life.closed_at + self._idle(life):
                    self._forget(life)
            elif life.clock is not None and self.shared - life.lag >= life.clock + self._idle(life):
                self.met["ended by the clock of others"] += 1
                self._end_idle(life)
                life.closed_at = self.shared
            elif life.clock is not None:
                self._fire_deadlines(life, self.shared - life.lag, after=life.clock)

    def _forget(self, life: Life) -> None:
        if isinstance(life, Session):
            del self.sessions[life.id]
        else:
            self.keys[life.key, life.values].remove(life)

    def _arrive(self, session: Session, event: Event, about: Any) -> None:
        """Take an event of a session: at once, or when it is known whether there was a pause."""
        session = self._settle(session, inf if event.time is None else event.time)
        if isinstance(event, sg.SessionEnd):
            self._end_explicitly(session, event)
            return
        silence = 0.0 if event.time is None or session.clock is None else event.time - session.clock
        if silence >= self._idle(session):
            self.met["exactly idle" if silence == self._idle(session) else "longer than idle"] += 1
            if not self.has_shared_clock:
                session.waiting = (event, about)
                return
            session = self._begin_anew(session)
        self._move(session, event.time)
        self._judge_session(session, event, about)

    def _settle(self, session: Session, time: float) -> Session:
        """Judge the event that waits, now that the next one of its session has come at a time."""
        if session.waiting is None:
            return session
        (event, about), session.waiting = session.waiting, None
        if time >= (event.time or 0.0) - self._idle(session):
            session = self._begin_anew(session)
            self._move(session, event.time)
        else:
            self.met["stamp not believed"] += 1
            event = replace(event, time=session.clock)
            self._move(session, None)
        self._judge_session(session, event, about)
        return session

    def _begin_anew(self, session: Session) -> Session:
        self._end_idle(session)
        self.sessions[session.id] = Session(session.id, seen=session.seen, told=session.told)
        return self.sessions[session.id]

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
            self._tell(slot, slot.spec.rule.on_deadline(time, slot.state), life, "deadline", time, time)

    def _end_idle(self, life: Life) -> None:
        """Judge the end of a life, once for what it has seen."""
        if not life.is_over:
            self._end(life, None if life.clock is None else life.clock + self._idle(life))

    def _end_explicitly(self, session: Session, event: Event) -> None:
        """Judge an end that was told, within the idle time; it moves no clock."""
        self.met["end after the end"] += session.is_over
        if session.is_over:
            return
        time, clock = event.time, session.clock
        if clock is not None:
            time = clock if time is None else min(max(time, clock), clock + self._idle(session))
        self._end(session, time)

    def _end(self, life: Life, time: float | None) -> None:
        self._fire_deadlines(life, inf if time is None else time)
        for spec in self.policy.rules:
            if spec.key == life.key or (isinstance(life, Session) and "session" in spec.key):
                self._end_rule(spec, life, time)
        life.is_over = True

    def _end_rule(self, spec: RuleSpec, life: Life, time: float | None) -> None:
        """Ask the states of a rule that saw something, and the single one of a session or of a part with acts in it."""
        if read.is_single(spec) and not read.has_gate(spec):
            if spec.scope != "part":
                self._slot(spec, life, ()).opened = True
            elif isinstance(life, Session) and life.part_has_acts:
                self._slot(spec, life, (life.part,)).opened = True
        end = sg.SessionEnd(session_id=life.id, time=time)
        seen = len(life.attempts) if isinstance(life, Session) else life.shown
        about = seen if life.clock is None else life.clock
        for slot in life.slots:
            if slot.spec is spec and slot.opened and spec.slot not in life.unread:
                self._tell(slot, spec.rule.on_session_end(end, slot.state), life, "end", time, about)

    # -- what rules see

    def _judge_session(self, session: Session, event: Event, about: Any) -> None:
        """Stamp the event and show it to the rules; a turn is followed by the calls in it."""
        self._begin_part(session, event)
        if isinstance(event, sg.Turn):
            session.index += 1
            content: Any = event.response["content"]
            blocks = [block for block in content if block["type"] == "tool_use"]
            text = "\n".join(block["text"] for block in content if block["type"] == "text")
            tools = tuple(block["name"] for block in blocks)
            session.turn = turn = replace(event, index=session.index, text=text, tools=tools)
            self._judge(session, turn, about)
            header = {name: getattr(turn, name) for name in ("session_id", "time", "run_id", "agent", "labels")}
            for block in blocks:
                call = sg.ToolCall(tool=block["name"], call_id=block.get("id", ""), args=block["input"], **header)
                self._judge_call(session, replace(call, index=turn.index), by_block=True)
        elif isinstance(event, sg.ToolCall):
            self._judge_call(session, replace(event, index=session.index), by_block=False)
        elif isinstance(event, sg.ToolResult | sg.GateDecision):
            self._judge(session, self._answered(session, event), about)
        else:
            session.user = event if isinstance(event, sg.UserMessage) else None
            self._judge(session, replace(event, index=session.index), about)

    def _begin_part(self, session: Session, event: Event) -> None:
        """Begin a part where a user begins one; what has no call and no turn in it yet is no part."""
        begins = isinstance(event, sg.UserMessage)
        if isinstance(event, sg.Turn) and event.request is not None and not session.user_waits:
            before = None if session.turn is None else session.turn.response["stop_reason"]
            messages: Any = event.request.get("messages") or [{"role": "user"}]
            begins = messages[-1]["role"] == "user" or before not in {None, "tool_use"}
        if isinstance(event, sg.Turn | sg.UserMessage):
            session.user_waits = isinstance(event, sg.UserMessage)
        if begins and session.part_has_acts:
            self.met["new part"] += 1
            for spec in self.policy.rules:
                if spec.scope == "part":
                    self._end_rule(spec, session, session.clock)
            session.slots = [slot for slot in session.slots if slot.spec.scope != "part"]
            session.part, session.part_has_acts = session.part + 1, False
        session.part_has_acts = session.part_has_acts or isinstance(event, sg.Turn | sg.ToolCall)

    def _judge_call(self, session: Session, call: sg.ToolCall, *, by_block: bool) -> None:
        """Judge an attempt once, whichever told of it first, and however often."""
        known = self._known_attempt(session, call, by_block=by_block)
        if known is not None:
            self.met["block after its call" if by_block else "call told again, or after its block"] += 1
            known.by_block, known.by_event = known.by_block or by_block, known.by_event or not by_block
            known.call_id = known.call_id or call.call_id
            return
        counted = (call.call_id, call.tool, read.same(call.args))
        session.told[counted] += 1
        call = replace(call, attempt=next(self.numbers))
        session.attempts.append(Attempt(call, call.call_id, by_block=by_block, by_event=not by_block))
        self._judge(session, call, (*counted, session.told[counted]))

    def _known_attempt(self, session: Session, call: sg.ToolCall, *, by_block: bool) -> Attempt | None:
        """Return the open attempt that is told of again: the latest of its id, else the oldest where one has none.

        Two blocks are two attempts; two events are one only under one id. Without an id, an attempt of the last two
        turns is meant.
        """
        alike = [one for one in session.attempts if one.is_open and one.call.tool == call.tool]
        alike = [one for one in alike if read.same(one.call.args) == read.same(call.args)]
        named = [one for one in alike if one.call_id == call.call_id != ""]
        near = [one for one in alike if "" in (one.call_id, call.call_id) and one.call.index > session.index - 2]
        for one in [*reversed(named), *near]:
            is_told_otherwise = one.by_event and not one.by_block if by_block else one.by_block and not one.by_event
            if is_told_otherwise or (not by_block and one.by_event and one in named):
                return one
        return None

    def _answered(self, session: Session, event: sg.ToolResult | sg.GateDecision) -> Event:
        """Return a result or a decision with what is known of its attempt: the latest open one."""
        for one in reversed(session.attempts):
            is_it = one.call_id == event.call_id if event.call_id else one.call.tool == event.tool
            if one.is_open and is_it:
                one.is_open = isinstance(event, sg.GateDecision)
                return replace(event, attempt=one.call.attempt, index=one.call.index, args=one.call.args)
        return replace(event, attempt=-1, index=session.index)

    def _judge(self, session: Session, event: Event, about: Any) -> None:
        """Show a stamped event to the rules of its session, and to every key that it has a value for."""
        context = read.what_holds_now(event, session.turn, session.user)
        self._ask_rules(session, event, about, context)
        for key in sorted({spec.key for spec in self.policy.rules if "session" not in spec.key}):
            if (values := read.key_values(key, event)) is not None:
                self.met["key across sessions"] += 1
                life = self._life_of_key(key, values, event)
                life.id = event.session_id
                self._move(life, event.time)
                self._ask_rules(life, event, about, context)

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

    def _ask_rules(self, life: Life, event: Event, about: Any, context: dict[str, Any]) -> None:
        life.shown += 1
        for spec in self.policy.rules:
            address = self._address(spec, life, event)
            if address is None:
                continue
            is_open, looks = read.gate_of(spec, context), read.looks_at(spec, event)
            has_clock = "clock" not in spec.rule.needs() or event.time is not None
            if looks and (is_open is None or not has_clock):
                life.unread.add(spec.slot)
            if is_open and (looks or isinstance(event, sg.Turn)) if read.has_gate(spec) else looks and has_clock:
                self._slot(spec, life, address).opened = read.has_gate(spec) or not read.is_single(spec)
            if looks and has_clock and (is_open or read.overrides(spec, "on_ungated")):
                self._ask(self._slot(spec, life, address), life, event, about, is_open=is_open is True)

    def _address(self, spec: RuleSpec, life: Life, event: Event) -> tuple[Any, ...] | None:
        """Return which state of a rule an event is for; None where it is for none of this life."""
        if not isinstance(life, Session):
            return () if spec.key == life.key else None
        values = read.key_values(spec.key, event) if "session" in spec.key else None
        if values is None or spec.scope == "session":
            return values
        return (*values, life.part if spec.scope == "part" else event.run_id)

    def _slot(self, spec: RuleSpec, life: Life, address: tuple[Any, ...]) -> Slot:
        for slot in life.slots:
            if slot.spec is spec and slot.address == address:
                return slot
        life.slots.append(Slot(spec, address, spec.rule.state_type()))
        return life.slots[-1]

    def _ask(self, slot: Slot, life: Life, event: Event, about: Any, *, is_open: bool) -> None:
        handler = read.HANDLERS[type(event)] if is_open else "on_ungated"
        answer = getattr(slot.spec.rule, handler)(event, slot.state)
        hit = answer if isinstance(answer, sg.Hit) else None
        if slot.spec.hold is not None and is_open:
            slot.hits_since = None if hit is None else event.time if slot.hits_since is None else slot.hits_since
            if hit is not None and (event.time or 0.0) - (slot.hits_since or 0.0) < slot.spec.hold:
                self.met["held by `for`"] += 1
                hit = None
        if hit is not None and hit.index is None:
            hit = replace(hit, index=event.index)
        self._tell(slot, hit, life, "event", event.time, (event.session_id, type(event), about))

    def _tell(self, slot: Slot, hit: sg.Hit | None, life: Life, at: str, time: float | None, about: Any) -> None:
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
        self.found.setdefault(identity, Found(identity, slot.spec.slot, at, session, time, hit.index, hit.detail))
