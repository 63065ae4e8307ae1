"""The judge, slow and obvious: what ``stream_guard`` must find, written from the pages of the specification.

Rules are black boxes. Everything that the judge adds to them stands here: which session and which life of it, what is
a redelivery, what is one attempt, turns, keys, cooldown, ``for``, deadlines, ends, time and identities.

Left out: limits, storage, parts, rules that stop, rules of agents, judges, lookalikes, JSON inside texts.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import Any, Final

from msgspec.structs import replace

import stream_guard as sg
from stream_guard.judge.model import Event
from stream_guard.judge.spec import Policy, RuleSpec

MISSING: Final = object()
OF_TOOLS: Final = (sg.ToolCall, sg.GateDecision, sg.ToolResult)


@dataclass
class Slot:
    """What one rule remembers of one address, with what the judge remembers beside it."""

    spec: RuleSpec
    address: tuple[Any, ...]
    state: Any
    opened: bool = False  # its gate was open for an event: its end is judged
    told_at: float | None = None  # time of the last finding that was told, for the cooldown
    hits_since: float | None = None  # since when each event was a hit, for `for`


@dataclass
class Attempt:
    """One attempt at a tool, told of by a block, by an event, or by both."""

    call: sg.ToolCall
    told_by: set[str]
    is_open: bool = True


@dataclass
class Life:
    """A session, or one value of a key that spans sessions, from one long pause to the next."""

    key: tuple[str, ...]  # empty for a session
    values: tuple[str, ...]  # of its key; of a session its id
    session_id: str  # of its last event
    clock: Any = None  # a time, once there was one
    lag: float = 0.0  # of its clock behind the shared one, at its last event
    is_over: bool = True  # nothing came since its end was judged, or nothing at all
    closed_at: float | None = None  # where the shared clock was when it found this silent for too long
    slots: dict[Any, Slot] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)  # rules that could not tell whether an event was in their gate

    # Only of a session.
    told: Counter[Any] = field(default_factory=Counter)  # events and attempts, as long as the session's id lives
    waiting: tuple[Any, Any] | None = None  # its stamp says that there was a pause, and nothing else does yet
    attempts: list[Attempt] = field(default_factory=list)
    index: int = -1
    context: dict[str, Any] = field(default_factory=dict)  # its last turn and message, for conditions


class Reference:
    """The judge of one policy. On a "stream" all share a clock; "inline" the receiver stamps, and calls ask."""

    def __init__(self, policy: Policy, mode: str) -> None:
        self.policy, self.mode = policy, mode
        self.shared = -inf
        self.lives: dict[Any, list[Life]] = defaultdict(list)  # by key and values; the last, of a key also one before
        # By identity: rule, at, session (none at deadlines and ends of keys that span sessions), time, index, detail.
        self.found: dict[Any, tuple[Any, ...]] = {}
        self.numbers = count()  # of attempts, whatever session they are of

    def feed(self, event: Event) -> None:
        """Take an event of a session: at once, or when it is known whether there was a pause before it."""
        lives = self.lives[(), (event.session_id,)]
        session = lives[0] if lives else self._begin(Life((), (event.session_id,), event.session_id))
        what, time = told_by(event), event.time
        content = (event.event_id, what, (event.agent, event.run_id) if time is None or self.mode == "inline" else time)
        if event.event_id and session.told[content]:
            return
        session.told[content] += 1
        session.told[what] += not event.event_id
        about = (event.event_id or session.told[what], what)
        session = self._settle(session, inf if time is None else time)
        if isinstance(event, sg.SessionEnd) and session.is_over and lives:
            return
        if self.mode == "stream" and time is not None:
            self.shared = max(self.shared, time)
        has_paused = time is not None and session.clock is not None and time - session.clock >= self._idle(session)
        if isinstance(event, sg.SessionEnd):
            self._end(session, time)
        elif has_paused and self.mode == "batch":
            session.waiting = (event, about)
        else:
            self._take(session, event, about, begins_anew=has_paused)
        self._pass_time()

    def end_all(self) -> None:
        for life in sorted(self._all_lives(), key=lambda one: (one.key, one.values)):
            self._settle(life, inf)
        for life in self._all_lives():
            self._end(life)

    # -- time

    def _begin(self, *lives: Life) -> Life:
        self.lives[lives[0].key, lives[0].values] = list(lives)
        return lives[0]

    def _all_lives(self) -> list[Life]:
        return [life for lives in self.lives.values() for life in reversed(lives)]  # the earlier one first

    def _idle(self, life: Life) -> float:
        """How long a silence ends a life. A key across sessions lives as long as its rules look back."""
        rules = [spec for spec in self.policy.rules if spec.key == life.key]
        spans = [spec.params.get(name, 0.0) for spec in rules for name in ("within_seconds", "window_seconds")]
        return float(max([self.policy.idle, *spans]))

    def _pass_time(self) -> None:
        """Let what is silent meet its deadlines and its end by the shared clock, each by its own distance."""
        for life in [life for life in self._all_lives() if self.mode == "stream" and life.clock is not None]:
            now, idle = self.shared - life.lag, self._idle(life)
            if life.closed_at is None and now < life.clock + idle:
                self._fire_deadlines(life, now, after=life.clock)
            elif life.closed_at is None:
                self._end(life)
                life.closed_at = self.shared
            elif self.shared >= life.closed_at + idle and life is self.lives[life.key, life.values][-1]:
                self.lives[life.key, life.values].pop()

    def _settle(self, session: Life, time: float) -> Life:
        """Judge the event that waits, now that the next one of its session has come at a time."""
        if session.waiting is None:
            return session
        (event, about), session.waiting = session.waiting, None
        was_pause = time >= event.time - self._idle(session)
        return self._take(session, event, about, begins_anew=was_pause, is_believed=was_pause)

    def _take(self, session: Life, event: Event, about: Any, *, begins_anew: bool, is_believed: bool = True) -> Life:
        if begins_anew:
            self._end(session)
            session = self._begin(Life((), session.values, event.session_id, told=session.told))
        self._move(session, event if is_believed else replace(event, time=None))  # such a stamp moves nothing,
        event = event if is_believed else replace(event, time=session.clock)  # and it is judged where it came
        if isinstance(event, sg.Turn):
            self._judge_turn(session, event, about)
        elif isinstance(event, sg.ToolCall):
            self._judge_call(session, event, "question" if self.mode == "inline" else "event")
        elif isinstance(event, sg.UserMessage):
            session.context["user"] = {"text": event.text}
            self._judge(session, replace(event, index=session.index), about)
        else:
            self._judge(session, self._answered(session, event), about)
        return session

    def _move(self, life: Life, event: Event) -> None:
        """Move the clock of a life to an event; deadlines come first."""
        time, life.session_id, life.is_over, life.closed_at = event.time, event.session_id, False, None
        if time is not None and (life.clock is None or time >= life.clock):
            self._fire_deadlines(life, time)
            life.clock = time
        life.lag = 0.0 if life.clock is None else max(0.0, self.shared - life.clock)

    # -- ends and deadlines

    def _fire_deadlines(self, life: Life, until: float, after: float = -inf) -> None:
        """Call the rules whose deadlines are due, in order of time.

        What a late event made due before the clock waits for an event at or after it, or for the end: a deadline fires
        early for nobody, and not because others spoke.
        """
        while not life.is_over:
            times = [(slot.spec.rule.deadline(slot.state), slot) for slot in life.slots.values()]
            due = [(time, slot) for time, slot in times if time is not None and after < time <= until]
            if not due:
                return
            time, slot = min(due, key=lambda one: one[0])
            self._tell(slot, slot.spec.rule.on_deadline(time, slot.state), life, "deadline", time, time)

    def _end(self, life: Life, told: float | None = inf) -> None:
        """Judge the end of a life, once: where it was told, but within the idle time. It moves no clock."""
        if life.is_over:
            return
        time = None if told == inf else told
        if life.clock is not None:
            time = life.clock if told is None else min(max(told, life.clock), life.clock + self._idle(life))
        self._fire_deadlines(life, inf if time is None else time)
        end = sg.SessionEnd(session_id=life.session_id, time=time)
        about = len(life.attempts) if life.clock is None else life.clock
        for spec in self._rules_of(life):
            if spec.key in {("session",), ("all",)} and spec.scope == "session" and not (spec.when or spec.unless):
                self._slot(spec, life, ()).opened = True
            for slot in life.slots.values():
                if slot.spec is spec and slot.opened and spec.slot not in life.unread:
                    self._tell(slot, spec.rule.on_session_end(end, slot.state), life, "end", time, about)
        life.is_over = True

    # -- what rules see

    def _judge_turn(self, session: Life, event: sg.Turn, about: Any) -> None:
        """Show a turn to the rules, and then the calls in it."""
        session.index += 1
        content: Any = event.response["content"]
        blocks = [block for block in content if block["type"] == "tool_use"]
        text = "\n".join(block["text"] for block in content if block["type"] == "text")
        session.context |= {"response": event.response, "request": event.request}
        turn = replace(event, index=session.index, text=text, tools=tuple(block["name"] for block in blocks))
        self._judge(session, turn, about)
        header = {name: getattr(turn, name) for name in ("session_id", "time", "run_id", "agent", "labels")}
        for block in blocks:
            call = sg.ToolCall(tool=block["name"], call_id=block.get("id", ""), args=block["input"], **header)
            self._judge_call(session, call, "block")

    def _judge_call(self, session: Life, call: sg.ToolCall, by: str) -> None:
        """Judge an attempt once, whichever told of it first, and however often."""
        if (known := self._known_attempt(session, call, by)) is not None:
            known.told_by.add(by)
            known.call = replace(known.call, call_id=known.call.call_id or call.call_id)
            return
        counted = (call.call_id, call.tool, same(call.args))
        session.told[counted] += 1
        call = replace(call, attempt=next(self.numbers), index=session.index)
        session.attempts.append(Attempt(call, {by}))
        self._judge(session, call, (*counted, session.told[counted]))

    def _known_attempt(self, session: Life, call: sg.ToolCall, by: str) -> Attempt | None:
        """Return the open attempt that is told of again: the latest of its id, else of the last two turns the oldest.

        Two blocks are two attempts; two events are one only under one id, of one caller.
        """
        what = (call.tool, same(call.args))
        alike = [one for one in session.attempts if one.is_open and (one.call.tool, same(one.call.args)) == what]
        if by == "question" and call.time is not None:  # one is asked about within the idle time
            alike = [one for one in alike if one.call.time is None or one.call.time > call.time - self.policy.idle]
        named = [one for one in alike if one.call.call_id == call.call_id != ""]
        near = [one for one in alike if "" in (one.call.call_id, call.call_id) and one.call.index > session.index - 2]
        again = [one for one in named if by == "event" and not self._are_two(one.call, call)]
        return next((one for one in [*reversed(named), *near] if by not in one.told_by or one in again), None)

    def _are_two(self, *calls: sg.ToolCall) -> bool:
        """Whether the key of a rule tells the callers of two events apart; who is not named may be either."""
        parts = {part for spec in self.policy.rules for part in (*spec.key, str(spec.scope))}
        found = [[key_values((part,), call) for call in calls] for part in parts]
        return any(None not in pair and pair[0] != pair[1] for pair in found)

    def _answered(self, session: Life, event: Any) -> Any:
        """Return a result or a decision with what is known of its attempt: the latest open one."""
        for one in reversed(session.attempts):
            is_it = one.call.call_id == event.call_id if event.call_id else one.call.tool == event.tool
            if one.is_open and is_it:
                one.is_open = isinstance(event, sg.GateDecision)
                return replace(event, attempt=one.call.attempt, index=one.call.index, args=one.call.args)
        return replace(event, attempt=-1, index=session.index)

    def _judge(self, session: Life, event: Event, about: Any) -> None:
        """Show a stamped event to the rules of its session, and to every key that it has a value for."""
        context: dict[str, Any] = {**session.context, "labels": event.labels, "agent": event.agent}
        if isinstance(event, OF_TOOLS):
            context["tool"] = {"name": event.tool, "args": event.args}
        self._ask_rules(session, event, about, context)
        for key in sorted({spec.key for spec in self.policy.rules if "session" not in spec.key}):
            if (values := key_values(key, event)) is not None:
                life = self._life_of_key(key, values, event)
                self._move(life, event)
                self._ask_rules(life, event, about, context)

    def _life_of_key(self, key: tuple[str, ...], values: tuple[str, ...], event: Event) -> Life:
        """Return the life of a key's value that an event belongs to: a new one after a pause, or the one before it."""
        time, new = event.time, Life(key, values, event.session_id)
        last, *before = self.lives[key, values] or [new]
        if last is new or (time is None and last.closed_at is not None):
            return self._begin(new)
        if time is None or last.clock is None:
            return last
        if before and time < min(last.clock, before[0].clock + self._idle(last)):
            return before[0]
        if time < last.clock + self._idle(last):
            return last
        for life in [*before, last]:
            self._end(life)
        last.closed_at = max(self.shared, last.clock + last.lag + self._idle(last))
        return self._begin(new, last)

    def _rules_of(self, life: Life) -> list[RuleSpec]:
        return [spec for spec in self.policy.rules if spec.key == life.key or ("session" in spec.key and not life.key)]

    def _ask_rules(self, life: Life, event: Event, about: Any, context: dict[str, Any]) -> None:
        for spec in self._rules_of(life):
            address = () if life.key else key_values(spec.key, event)
            if address is None:
                continue
            slot = self._slot(spec, life, (*address, event.run_id) if spec.scope == "run" else address)
            handler, is_open = f"on_{event.__struct_config__.tag}", gate_of(spec, context)
            looks = looks_at(spec, event, handler)
            lacks_clock = "clock" in spec.rule.needs() and event.time is None
            if looks and (is_open is None or lacks_clock):
                life.unread.add(spec.slot)
            if is_open and (looks or (isinstance(event, sg.Turn) and (spec.when or spec.unless))):
                slot.opened = True
            if looks and not lacks_clock and (is_open or looks_at(spec, event, "on_ungated")):
                self._ask(slot, life, event, about, handler if is_open else "on_ungated")

    def _slot(self, spec: RuleSpec, life: Life, address: tuple[Any, ...]) -> Slot:
        return life.slots.setdefault((spec.slot, address), Slot(spec, address, spec.rule.state_type()))

    def _ask(self, slot: Slot, life: Life, event: Event, about: Any, handler: str) -> None:
        answer = getattr(slot.spec.rule, handler)(event, slot.state)
        hit = answer if isinstance(answer, sg.Hit) else None
        if slot.spec.hold is not None and handler != "on_ungated":
            slot.hits_since = None if hit is None else event.time if slot.hits_since is None else slot.hits_since
            lasted = (event.time or 0.0) - (slot.hits_since or 0.0)
            hit = hit if lasted >= slot.spec.hold else None
        if hit is not None:
            hit = replace(hit, index=event.index if hit.index is None else hit.index)
            self._tell(slot, hit, life, "event", event.time, (event.session_id, type(event), about))

    def _tell(self, slot: Slot, hit: sg.Hit | None, life: Life, at: str, time: float | None, about: Any) -> None:
        """Make a hit a finding, unless its cooldown holds it back."""
        since = inf if slot.told_at is None or time is None else abs(time - slot.told_at)
        if hit is None or (slot.spec.cooldown is not None and since < slot.spec.cooldown):
            return
        slot.told_at = slot.told_at if time is None else time
        session = life.session_id if not life.key or at == "event" else ""
        identity = (slot.spec.slot, life.key, life.values, slot.address, at, about)
        self.found.setdefault(identity, (slot.spec.slot, at, session, time, hit.index, hit.detail))


# -- how contents, values, keys and conditions are read


def told_by(event: Event) -> str:
    """Return what an event tells, exactly: 1 is not 1.0."""
    names = ["text", "call_id", "status", "output", "action", *(["tool", "args"] * isinstance(event, sg.ToolCall))]
    content = event.response["content"] if isinstance(event, sg.Turn) else None
    return repr([type(event), content, *(getattr(event, name, None) for name in names)])


def same(value: Any) -> str:
    """Return a text equal for equal JSON values: 1 is 1.0, true is not 1, "5" is not 5."""
    text = json.dumps(value, sort_keys=True)
    return json.dumps(json.loads(text, parse_float=lambda n: int(float(n)) if float(n).is_integer() else float(n)))


def lookup(value: Any, path: str) -> Any:
    for step in path.split("."):
        if isinstance(value, list) and step.isdigit():
            value = value[int(step)] if int(step) < len(value) else MISSING
        else:
            value = value.get(step, MISSING) if isinstance(value, dict) else MISSING
    return value


def key_values(key: tuple[str, ...], event: Event) -> tuple[str, ...] | None:
    """Return the values of a key as texts; None where the event has none for a part of it."""
    context = {name: getattr(event, name, MISSING) for name in ("agent", "labels", "tool", "args")}
    context["run"] = event.run_id
    values = [lookup(context, part) for part in key if part not in {"session", "all"}]
    if MISSING in values or None in values or ("session" not in key and "" in values):
        return None  # what has no name is one within its session, and nobody across sessions
    return tuple(value if isinstance(value, str) else same(value) for value in values)


def holds(source: Any, context: dict[str, Any]) -> bool | None:
    """Whether a condition holds; None where that hangs on what the turn leaves out, or on a turn that never came."""
    if isinstance(source, list):
        answers = [holds(part, context) for part in source]
        return False if False in answers else None if None in answers else True
    if "not" in source:
        inner = holds(source["not"], context)
        return None if inner is None else not inner
    root = source["path"].partition(".")[0]
    if root in {"request", "response"} and context.get(root) is None:
        return None
    value = lookup(context, source["path"])
    if source["op"] == "exists":
        return (value is not MISSING) is source["value"]
    return value is not MISSING and same(value) == same(source["value"])


def gate_of(spec: RuleSpec, context: dict[str, Any]) -> bool | None:
    """Whether a rule is asked; None where that cannot be told."""
    sources = [] if spec.when is None else [spec.when.source]
    return holds(sources if spec.unless is None else [*sources, {"not": spec.unless.source}], context)


def looks_at(spec: RuleSpec, event: Event, handler: str) -> bool:
    """Whether a rule has a handler, and looks at such an event."""
    names, tools = spec.rule.handlers(), spec.rule.tools()
    is_there = getattr(type(spec.rule), handler) is not getattr(sg.Rule, handler)
    is_its_tool = not isinstance(event, OF_TOOLS) or tools is None or tools.matches(event.tool)
    return is_there and is_its_tool and (names is None or handler in names or handler == "on_ungated")
