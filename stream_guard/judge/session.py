"""One session, or one value of a key that spans sessions: what its rules know, its open calls, the events that wait.

What is kept of arguments are excerpts of what the policy reads, in place of values that are large or stored.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Set
from enum import IntEnum
from math import inf
from operator import attrgetter, itemgetter
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stream_guard.judge.arguments import Catalogue
from stream_guard.judge.bound import NO_STATE, Address, BoundRule
from stream_guard.judge.counts import Counts
from stream_guard.judge.forgotten import Sketch, sketch_number
from stream_guard.judge.identity import Occurrences, SeenIds, args_digest, canonical
from stream_guard.judge.limits import FRESH
from stream_guard.judge.model import Event, GateDecision, Json, Objection, SessionEnd, resolved
from stream_guard.judge.paths import MISSING
from stream_guard.judge.rule import State

_EXCERPT_LIMIT: Final = 1024  # bytes of one argument that a stored session keeps for a key or a gate
LARGE: Final = 1024  # bytes of arguments that are kept whole until the result comes; memory may take 64 times that
_SKETCH_BYTES: Final = 2**14  # of 5000 forgotten keys, one new key in 1000 is taken for one of them
_NOTHING: Final[frozenset[int]] = frozenset()
_NO_ADDRESSES: Final[frozenset[Address]] = frozenset()
_encode: Final = msgspec.msgpack.Encoder().encode


class Slot(msgspec.Struct, gc=False):
    """All that is kept for one address: the rule's state, and what its cooldown, its `for` and its gate remember.

    A slot that has seen nothing is neither counted nor stored, so that a restart changes nothing.
    """

    state: Any
    opened: bool = False  # the rule's gate opened, or its key had this value: the end is judged
    since: float | None = None  # since when a rule with `for` has been hitting without a break
    last: float | None = None  # time of the last finding, where the rule has a cooldown
    suppressed: int = 0  # findings that the cooldown held back since then

    def is_blank(self, default: State) -> bool:
        """Whether it has seen nothing that a new one would not have."""
        return bool(self.state == default) and not self.opened and self.since is None and self.last is None


class Life(IntEnum):
    """Whether a session is open. A closed one is kept for as long as its own next event may show that it goes on."""

    LIVE = 0
    RESTING = 1  # closed as idle by the shared clock
    ENDED = 2  # ended by somebody who may not let its limits begin anew


LIVE: Final = Life.LIVE  # asked for by name, a member of an enum costs more than what is asked
RESTING: Final = Life.RESTING
ENDED: Final = Life.ENDED


class Lasting:
    """What lasts as long as the id of a session, however often the session is closed as idle and begins again."""

    __slots__ = ("attempts", "catalogue", "ids", "told")

    def __init__(self) -> None:
        self.ids = SeenIds()  # of the last events
        self.told = Occurrences()  # of attempts, and of events without an id
        self.attempts = 0  # the number of the next one
        self.catalogue: Catalogue | None = None  # of the tools that rules which stop ask about


Wanted: TypeAlias = dict[str, Any]
"""Places in arguments, as steps inside steps; an empty one stands for the whole value."""


def wanted_places(paths: frozenset[tuple[str, ...]]) -> Wanted:
    """Return the places of paths; one inside another is left out, as the whole value has it."""
    places: Wanted = {}
    for steps in sorted(paths, key=len):
        inner, is_inside = places, False
        for step in steps[:-1]:
            if inner.get(step) == {}:
                is_inside = True
                break
            inner = inner.setdefault(step, {})
        if not is_inside:
            inner.setdefault(steps[-1], {})
    return places


def excerpt(args: Json, places: Wanted) -> Json:
    """Return of arguments what stands at the places, in new objects; an index into a list becomes a key."""
    if isinstance(args, str):
        return ""  # text that is not JSON: still to be told from arguments without a value
    kept = _excerpt(args, places) if places else MISSING
    return None if kept is MISSING else kept


def _excerpt(value: Json, places: Wanted) -> Json:
    if not places:
        return value if _can_be_kept(value) else MISSING
    found: dict[str, Json] = {}
    for step, inner in places.items():
        if type(value) is dict:
            item = value.get(step, MISSING)
        elif isinstance(value, list) and step.isascii() and step.isdigit() and int(step) < len(value):
            item = value[int(step)]
        else:
            return MISSING
        kept = MISSING if item is MISSING else _excerpt(item, inner)
        if kept is not MISSING:
            found[step] = kept
    return found or MISSING


def _can_be_kept(value: Json) -> bool:
    if type(value) is str and len(value) < _EXCERPT_LIMIT // 4:  # most are; a character has four bytes at most
        return True
    try:
        return len(_encode(value)) <= _EXCERPT_LIMIT
    except (OverflowError, ValueError):  # a whole number beyond 64 bits, half a surrogate pair: rows can hold them
        return len(canonical(value)) <= _EXCERPT_LIMIT
    except (TypeError, RecursionError):  # of callers in this process: what JSON does not have, or too deep
        return False


@resolved
class OpenCall(msgspec.Struct, array_like=True, gc=False):
    """A tool call that has no result yet."""

    call_id: str
    tool: str
    attempt: int
    index: int
    in_block: bool  # a turn's tool-use block announced it
    in_event: bool  # a tool_call event reported it
    excerpted: int = 0  # whether of its arguments only what the policy reads is left; 0: they are whole
    args: Json = None
    digest: bytes = b""  # of its arguments, once they are no longer whole: nobody can find others for it
    event_id: str = ""  # under which it was asked or told, if it was
    refused: bool = False  # a gate refused it, and the rules were told
    # What rules have against it, by their numbers in the policy; None: this policy has not judged it.
    objections: tuple[Objection, ...] | None = None
    asked: bool = False  # a gate was asked about it
    since: float | None = None  # when it was told or asked about, or allowed after a refusal
    whose: tuple[str, ...] = ()  # the values of whoever told of it first, by which keys of rules count it
    before: int = 0  # how many attempts with its id, tool and arguments its session had before
    lacks_args: bool = False  # what told of it left its arguments out
    contested: bool = False  # common readers differ on what its arguments are

    def keep_excerpt(self, places: Wanted) -> None:
        """Keep of the arguments only a digest and what the policy reads."""
        if not self.excerpted:
            self.digest = args_digest(self.args, self.contested)
            self.args, self.excerpted = None if self.args is None else excerpt(self.args, places), 1

    def may_be_repeated(self, now: float | None) -> bool:
        """Whether its answer may be asked for once more: it was no yes, or a yes that may have got lost just now."""
        if self.refused or self.since is None or now is None:
            return True
        return now - self.since < FRESH

    def note_question(self, event_id: str, now: float | None) -> None:
        """Take note that a gate was asked about it, under this id."""
        self.asked, self.since, self.event_id = True, now, event_id

    def note_answer(self, refused: bool, now: float | None) -> None:
        """Take note of what a gate answered."""
        if self.refused and not refused:
            self.since = now
        self.refused = refused

    def end_repeats(self) -> None:
        """Take note that something ran under its id: whoever asks about it now asks about another run."""
        self.refused, self.since = False, -inf


class OpenCalls:
    """The calls of a session that have no result yet, by id; ids repeat in real traces."""

    __slots__ = ("by_id", "count", "lost")

    def __init__(self) -> None:
        self.by_id: dict[str, list[OpenCall]] = {}
        self.count = 0
        self.lost = False  # open calls were forgotten, so a result may be of any tool

    def add(self, call: OpenCall) -> None:
        """Remember a call until its result comes."""
        known = self.by_id.get(call.call_id)
        if known is None:
            self.by_id[call.call_id] = [call]
        else:
            known.append(call)
        self.count += 1

    def drop(self, call: OpenCall) -> None:
        """Forget a call: its result has come, or the limit is reached."""
        known = self.by_id[call.call_id]
        if len(known) == 1:
            del self.by_id[call.call_id]
        else:
            known[:] = [other for other in known if other is not call]
        self.count -= 1

    def in_order(self) -> list[OpenCall]:
        """Return the calls, the one that was told of first in front."""
        return sorted((call for calls in self.by_id.values() for call in calls), key=attrgetter("attempt"))

    def drop_older_half(self) -> int:
        """Forget the older half of the calls, and return how many that are."""
        calls = self.in_order()
        dropped = calls[: (len(calls) + 1) // 2]
        for call in dropped:
            self.drop(call)
        self.lost = True
        return len(dropped)

    def take(self, call_id: str, tool: str) -> OpenCall | None:
        """Return the call that ``find`` finds, and forget it: its result has come."""
        known = self.by_id.get(call_id)
        if call_id and known is not None and len(known) == 1:
            del self.by_id[call_id]
            self.count -= 1
            return known[0]
        call = self.find(call_id, tool)
        if call is not None:
            self.drop(call)
        return call

    def find(self, call_id: str, tool: str) -> OpenCall | None:
        """Return the latest call of an id; without an id, the latest of a tool."""
        if call_id:
            known = self.by_id.get(call_id)
            return known[-1] if known else None
        of_tool = [call for calls in self.by_id.values() for call in calls if call.tool == tool]
        return max(of_tool, key=attrgetter("attempt"), default=None)

    def find_asked(self, decision: GateDecision) -> OpenCall | None:
        """Return the call that a gate decided on, by the id of the question, which the decision's begins with."""
        question, _, _ = decision.event_id.rpartition("/")
        for call in self.by_id.get(decision.call_id, ()):
            if call.event_id == question and call.asked:
                return call
        return None


class WaitingEvents:
    """Events of a session that wait for earlier ones, or for what shows that a long pause was one, by time."""

    __slots__ = ("_sizes", "events", "size")

    def __init__(self) -> None:
        self.events: list[tuple[float, int, Event]] = []  # by time and arrival
        self._sizes: dict[int, int] = {}  # bytes of each of them, by arrival, in that order
        self.size = 0  # bytes of all of them

    def add(self, event: Event, time: float) -> None:
        """Put an event behind those of the same time."""
        arrival = 1 + next(reversed(self._sizes), 0)
        insort(self.events, (time, arrival, event), key=itemgetter(0, 1))
        size = self._sizes[arrival] = size_of(event)
        self.size += size

    def pop(self) -> tuple[float, Event]:
        """Return the earliest event with its time; it waits no longer."""
        time, arrival, event = self.events.pop(0)
        self.size -= self._sizes.pop(arrival)
        return time, event

    def put_last_at(self, time: float) -> None:
        """Let the last event wait as if it had come at an earlier time."""
        _, arrival, event = self.events.pop()
        insort(self.events, (time, arrival, event), key=itemgetter(0, 1))

    @property
    def first(self) -> float:
        """The time of the earliest event."""
        return self.events[0][0]

    @property
    def last(self) -> float:
        """The time of the latest event."""
        return self.events[-1][0]


class Strangers:
    """What a row has of rules that this policy does not have: another gate judges by them."""

    __slots__ = ("cut", "idle", "slots", "unevaluable")

    def __init__(self, unevaluable: tuple[int, ...] = (), cut: tuple[int, ...] = (), idle: float = 0.0) -> None:
        self.slots: dict[tuple[int, tuple[str, ...]], Slot] = {}  # with states as they are stored
        self.unevaluable = unevaluable  # tags of such rules that could not judge an event
        self.cut = cut  # tags of such rules that lost what they remembered
        self.idle = idle  # after how long a silence such a rule begins anew, at most


_NO_STRANGERS: Final = Strangers()  # of nearly every session


class Session:
    """Everything that is remembered of one session, or of one value of a key that spans sessions.

    None of it grows with the length of the session.
    """

    __slots__ = (
        "answered",
        "calls",
        "cut",
        "earlier",
        "end_judged",
        "ended_by",
        "explicit_part",
        "forgotten",
        "fresh_part",
        "id",
        "keyed",
        "lag",
        "last_agent",
        "last_event_id",
        "last_labels",
        "last_run_id",
        "last_session_id",
        "lasting",
        "life",
        "memory",
        "now",
        "part",
        "part_active",
        "scheduled",
        "seq",
        "slots",
        "strangers",
        "timers",
        "turns",
        "twinned",
        "unevaluable",
        "waiting",
    )

    def __init__(self, session_id: str, lasting: Lasting | None = None) -> None:
        self.id = session_id
        # Of the last event: what has no event of its own carries these. The event itself would keep its whole body.
        self.last_session_id = session_id
        self.last_event_id = ""
        self.last_run_id = ""
        self.last_agent = ""
        self.last_labels: dict[str, str] = {}
        self.now = -inf  # the latest event time seen
        self.turns = 0
        self.part = 0  # number of user-initiated parts before the current one
        self.part_active = False  # a turn or a call came in the current part
        self.slots: dict[Address, Slot] = {}  # those with a key in the order of use, the longest unused first
        self.keyed = 0  # how many of them have a key
        self.twinned = _NO_ADDRESSES  # where slots of twins stand, so not stored
        self.timers: dict[Address, float] = {}  # derived from the states, so not stored
        self.memory: set[int] = set()  # tags of the conditions that held at the last turn or user message
        self.unevaluable = _NOTHING  # rules that could not judge an event
        # Rules that stop, and lost what they remembered when this session was closed for want of room.
        self.cut: frozenset[int] = _NOTHING
        self.forgotten: Sketch | None = None  # addresses of states of such rules that were forgotten one by one
        self.life: Life = LIVE
        self.lasting = lasting if lasting is not None else Lasting()
        self.calls = OpenCalls()
        self.waiting: WaitingEvents | None = None
        self.seq = 0  # number of events applied
        self.ended_by = ""  # of an end for good, while it is judged: the id of the event that says so
        self.end_judged = -1  # how many there were when its end was judged last
        self.explicit_part = ""  # the source's own name of the current part
        self.fresh_part = False  # a user message opened the part and no turn has come since
        self.answered = False  # the last turn ended for good: the next request opens a part
        self.lag = 0.0  # how far this session's clock runs behind the stream's
        self.scheduled = inf  # its earliest entry among the deadlines
        # Of a value of a key: its life before a pause that the shared clock has not passed yet.
        self.earlier: Session | None = None
        self.strangers = _NO_STRANGERS

    @property
    def end_of_what(self) -> str:
        """What tells its end from other ends: its clock, or without one the number of a session's next attempt."""
        if self.now > -inf:
            return str(self.now)
        return f"{self.lasting.attempts} {self.ended_by}"

    @property
    def resting(self) -> bool:
        """Whether it is closed, and kept in case it goes on."""
        return self.life is not LIVE

    def hold_back(self, event: Event, time: float) -> None:
        """Let an event wait, as if it had come at a time."""
        if self.waiting is None:
            self.waiting = WaitingEvents()
        self.waiting.add(event, time)

    @property
    def time(self) -> float | None:
        """The latest event time seen, or None when no event had a time."""
        return None if self.now == -inf else self.now

    def note_last(self, event: Event) -> None:
        """Remember who the last event was about."""
        self.last_session_id = event.session_id
        self.last_event_id = event.event_id
        self.last_run_id = event.run_id
        self.last_agent = event.agent
        self.last_labels = event.labels

    def shorten_last(self) -> None:
        """Keep of the last event only what is short; the name of its part stays, as another one opens a part."""
        if len(self.last_event_id) + len(self.last_run_id) + len(self.last_agent) > _EXCERPT_LIMIT:
            self.last_event_id = self.last_run_id = self.last_agent = ""
        labels = self.last_labels.items()
        self.last_labels = {name: value for name, value in labels if len(name) + len(value) <= _EXCERPT_LIMIT}

    def without_states(self) -> Session:
        """Return the same session with nothing but its time, what conditions remember, and who lost states in it."""
        left = Session(self.id)
        left.now, left.life, left.memory = self.now, self.life, self.memory
        strangers = self.strangers
        lost = (*strangers.cut, *[tag for tag, _ in strangers.slots])
        left.strangers = Strangers(cut=lost, idle=strangers.idle)
        return left

    def make_end(self, reason: Literal["closed", "idle", "end_of_input"], time: float | None) -> SessionEnd:
        """Return the end event. It carries the session, agent, run and labels of the last event."""
        return SessionEnd(
            session_id=self.last_session_id,
            event_id=self.last_event_id,
            time=time,
            run_id=self.last_run_id,
            agent=self.last_agent,
            labels=self.last_labels,
            index=self.turns - 1,
            reason=reason,
        )


def size_of(event: Event) -> int:
    """Return the bytes that an event takes in a row, about."""
    try:
        return len(_encode(event))
    except (TypeError, ValueError, OverflowError, RecursionError):  # an in-process caller may pass anything
        return len(canonical(msgspec.structs.asdict(event)))


def number_of(address: Address) -> int:
    """Return the number of the rule whose slot stands at an address."""
    return address if isinstance(address, int) else int(address[0])


class RuleSlots:
    """Finds, makes and forgets the slots of a policy's rules, with their timers."""

    def __init__(self, bounds: tuple[BoundRule, ...], counts: Counts, most: int) -> None:
        self._bounds = bounds
        self._counts = counts
        self._most = most  # with a key, in one session
        self._no_slot = Slot(NO_STATE)

    def get(self, bound: BoundRule, address: Address, session: Session) -> Slot:
        """Return the slot at an address; a new one where there is none yet. It is the last used from now on."""
        if bound.slotless:
            return self._no_slot
        slots = session.slots
        if isinstance(address, int):
            slot = slots.get(address)
            if slot is None:
                slot = slots[address] = Slot(bound.new_state())
            return slot
        slot = slots.pop(address, None)
        if slot is None:
            if session.keyed >= self._most:
                self._evict(session)
            slot = Slot(bound.new_state())
            session.keyed += 1
        slots[address] = slot
        return slot

    def leave(self, bound: BoundRule, address: Address, slot: Slot, session: Session) -> None:
        """Forget a slot with a key that has seen nothing: it is to take nobody's place."""
        if not bound.slotless and slot.is_blank(bound.default):
            self.forget(session, address)

    def _evict(self, session: Session) -> None:
        """Forget the slot with a key that was not used for longest: an agent that invents keys must not fill memory."""
        for address, slot in session.slots.items():
            if isinstance(address, int):
                continue
            bound = self._bounds[number_of(address)]
            if bound.remembers and (slot.state != bound.default or slot.since is not None):
                if session.forgotten is None:
                    session.forgotten = Sketch()
                session.forgotten.add(_sketched(bound, address), _SKETCH_BYTES)
            self.forget(session, address)
            self._counts.evictions["states"] += 1
            return

    def is_forgotten(self, bound: BoundRule, address: Address, session: Session) -> bool:
        """Whether the slot of a rule was forgotten at an address, or may have been."""
        forgotten = session.forgotten
        return forgotten is not None and bound.remembers and _sketched(bound, address) in forgotten

    def forget(self, session: Session, address: Address) -> None:
        """Forget what stands at an address."""
        if session.slots.pop(address, None) is not None and not isinstance(address, int):
            session.keyed -= 1
        session.twinned -= {address}
        session.timers.pop(address, None)

    def forget_all(self, session: Session, rules: Set[int]) -> None:
        """Forget everything that a session has of these rules."""
        for address in [address for address in session.slots if number_of(address) in rules]:
            self.forget(session, address)
        if session.unevaluable:
            session.unevaluable -= rules
        if session.cut:
            session.cut -= rules

    def set_timer(self, bound: BoundRule, address: Address, state: State, session: Session) -> None:
        """Set the timer of a state to the deadline that its rule asks for, if it asks for one."""
        deadline = bound.timer(state) if bound.timer is not None else None
        if deadline is None:
            session.timers.pop(address, None)
        else:
            session.timers[address] = deadline

    def restore(self, session: Session) -> None:
        """Set what is made from the slots of a restored session: timers, and which of them are of twins."""
        session.keyed = sum(not isinstance(address, int) for address in session.slots)
        session.twinned = frozenset([one for one in session.slots if self._bounds[number_of(one)].is_twin])
        for address, slot in session.slots.items():
            bound = self._bounds[number_of(address)]
            if bound.timer is not None:
                try:
                    self.set_timer(bound, address, slot.state, session)
                except Exception:  # noqa: BLE001  # ADR 0007: the rule's next event tells of it
                    self._counts.rule_errors[bound.number] += 1


def state_at(bound: BoundRule, slot: Slot | None) -> State:
    """Return the state in a slot; a new one where there is none, and that of no rule that keeps one otherwise."""
    return NO_STATE if bound.stateless else bound.new_state() if slot is None else slot.state


def _sketched(bound: BoundRule, address: Address) -> int:
    """Return the number of an address for a sketch: that of its rule's tag, which no other policy changes."""
    values = () if isinstance(address, int) else address[1:]
    return sketch_number("\0".join([f"{bound.tag:08x}", *map(str, values)]))
