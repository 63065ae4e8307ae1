"""A session as a row of a store, and back.

Rows cannot fail whatever an event held: what msgpack has no form for is written as JSON (``json_values``). States are
msgpack in such a row too, each by itself, so that those of rules that only another gate has are never read into values.
"""

from __future__ import annotations

import json
import struct
from functools import lru_cache, partial
from math import inf
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from stream_guard.judge.arguments import Catalogue, ToolSchema
from stream_guard.judge.bound import NO_STATE, Address, BoundRule
from stream_guard.judge.counts import Counts
from stream_guard.judge.fold import Engine
from stream_guard.judge.forgotten import Sketch
from stream_guard.judge.json_values import encode, is_json
from stream_guard.judge.model import Event, resolved
from stream_guard.judge.rule import State
from stream_guard.judge.session import Life, OpenCall, Session, Slot, Strangers, number_of

ROW_VERSION: Final = 1
_STATES: Final = 18  # where the states stand in a row
_NO_KEY: Final[tuple[str, ...]] = ()
_JOINED: Final = b"\xc1"  # msgpack never begins with it, so no row does
_LENGTH: Final = struct.Struct("<I")
_AS_JSON: Final = b"\xc9"  # how a state begins that is JSON inside msgpack: an extension, which no state has else
_EXTENSION: Final = struct.Struct(">cIB")

StoredName: TypeAlias = tuple[int, tuple[str, ...]]
"""Where a rule's slot stands in a stored session: the tag of the rule, and the values of its key."""


@resolved
class StoredSession(msgspec.Struct, array_like=True, gc=False):
    """A session as it is stored. The order of the fields is the format: a change of it needs a higher ROW_VERSION."""

    version: int
    session_id: str
    run_id: str
    agent: str
    labels: dict[str, str]
    last_event_id: str
    time: float | None
    turns: int
    part: int
    flags: int
    seq: int
    attempts: int
    lag: float
    explicit_part: str
    recent: bytes
    older: bytes
    memory: list[int]
    open: list[OpenCall]
    states: list[tuple[int, tuple[str, ...], msgspec.Raw]]
    opened: list[StoredName]
    unevaluable: list[int]
    cooldowns: list[tuple[int, tuple[str, ...], float, int]]
    holds: list[tuple[int, tuple[str, ...], float]]
    buffer: list[tuple[float, int, Event]]
    policy_version: str = ""  # under which the open calls were judged
    # Rows of an earlier version end here, and an earlier version ignores what follows.
    resting: bool = False
    before: bytes = b""  # a row of the session from before a jump in time, in rows of an earlier version
    jump: Event | None = None  # of an earlier version too
    contents: bytes = b""  # digests of what the event ids stood for, those of `recent` first
    cut: list[int] = []  # tags of the rules that lost what they remembered
    forgotten: bytes = b""  # a sketch of the addresses of slots that were forgotten
    told: tuple[int, bytes, bytes] = (0, b"", b"")  # how often attempts were told of
    catalogue: bytes = b""  # schemas of the tools that the session declared
    idle: float = 0.0  # after how long a silence it begins anew, by the policy that says the longest


@resolved
class StoredChanges(msgspec.Struct, array_like=True, gc=False):
    """What had changed in a session since its row was stored; an earlier version wrote it behind the row."""

    row: msgspec.Raw  # a StoredSession, with only those calls, states and event ids that are new or have changed
    closed: list[int]  # attempts of calls that are not open any longer
    dropped: list[StoredName]  # states that are no longer there


_encode_row: Final = msgspec.msgpack.Encoder().encode
_decode_row: Final = msgspec.msgpack.Decoder(StoredSession).decode
_decode_changes: Final = msgspec.msgpack.Decoder(StoredChanges).decode


def pack(session: Session, engine: Engine) -> bytes:
    """Return the session as bytes. Slots that have seen nothing are left out."""
    bounds, lasting = engine.bounds, session.lasting
    found = _list_slots(session, engine)
    recent, older, contents = lasting.ids.stored()
    flags = session.part_active | session.fresh_part << 1 | session.answered << 2
    flags |= (session.life is Life.ENDED) << 3 | session.calls.lost << 4 | (session.end_judged == session.seq) << 5
    row = (
        ROW_VERSION,
        session.last_session_id,
        session.last_run_id,
        session.last_agent,
        session.last_labels,
        session.last_event_id,
        session.time,
        session.turns,
        session.part,
        flags,
        session.seq,
        lasting.attempts,
        session.lag,
        session.explicit_part,
        recent,
        older,
        sorted(session.memory),
        _list_calls(session, engine),
        found.states,
        found.opened,
        sorted([*[bounds[number].tag for number in session.unevaluable], *session.strangers.unevaluable]),
        found.cooldowns,
        found.holds,
        [] if session.waiting is None else session.waiting.events,
        engine.policy.version,
        session.resting,
        b"" if session.earlier is None else pack(session.earlier, engine),
        None,
        contents,
        sorted({*[bounds[number].tag for number in session.cut], *session.strangers.cut}),
        b"" if session.forgotten is None else session.forgotten.bits,
        lasting.told.stored(),
        _write_catalogue(lasting.catalogue),
        max(engine.idle_of(session.id), session.strangers.idle),
    )
    try:
        return _encode_row(row)
    except (OverflowError, ValueError):
        found.states[:] = [(tag, key, _packed_state(state)) for tag, key, state in found.states]
        return encode(row)


def _packed_state(state: State) -> msgspec.Raw:
    """Return a state as msgpack, whatever it holds."""
    data = encode([state])
    return msgspec.Raw(_EXTENSION.pack(_AS_JSON, len(data), 0) + data if is_json(data) else data[1:])


class _Slots(NamedTuple):
    """What is stored of slots, each part behind the name of its slot."""

    states: list[Any]
    opened: list[StoredName]
    cooldowns: list[tuple[int, tuple[str, ...], float, int]]
    holds: list[tuple[int, tuple[str, ...], float]]

    def add_marks(self, tag: int, key: tuple[str, ...], slot: Slot) -> None:
        """Add what a slot remembers beside its state."""
        if slot.opened:
            self.opened.append((tag, key))
        if slot.last is not None:
            self.cooldowns.append((tag, key, slot.last, slot.suppressed))
        if slot.since is not None:
            self.holds.append((tag, key, slot.since))


def _list_slots(session: Session, engine: Engine) -> _Slots:
    """Return what slots have seen: states that differ from their rule's default, and of keys all, in order of use."""
    bounds = engine.bounds
    states: list[Any] = []
    found = _Slots(states, [], [], [])
    for (tag, key), slot in session.strangers.slots.items():
        if slot.state is not NO_STATE:
            states.append((tag, key, slot.state))
        found.add_marks(tag, key, slot)
    for address, slot in session.slots.items():
        if isinstance(address, int):  # nearly all; one that has seen nothing costs a comparison and no more
            bound, state = bounds[address], slot.state
            if state != bound.default:
                states.append((bound.tag, _NO_KEY, state))
            if bound.marks_slot:
                found.add_marks(bound.tag, _NO_KEY, slot)
            continue
        tag, key = bounds[int(address[0])].tag, tuple(str(value) for value in address[1:])
        states.append((tag, key, slot.state))
        found.add_marks(tag, key, slot)
    return found


def _list_calls(session: Session, engine: Engine) -> list[OpenCall]:
    """Return the open calls in their order, each with as much of its arguments as is stored."""
    if not session.calls.by_id:
        return []
    calls = session.calls.in_order()
    for call in calls:
        call.keep_excerpt(engine.places)
    return calls


def _write_catalogue(known: Catalogue | None) -> bytes:
    return b"" if known is None else _written_catalogue(tuple(known.items()))


@lru_cache(maxsize=1024)
def _written_catalogue(tools: tuple[tuple[str, ToolSchema | None], ...]) -> bytes:
    return encode([[name, None if tool is None else tool.schema] for name, tool in tools])


@lru_cache(maxsize=1024)
def read_catalogue(data: bytes) -> Catalogue | None:
    """Return the declared tools that were written; sessions that declared the same share them."""
    if not data:
        return None
    tools = json.loads(data) if is_json(data) else msgspec.msgpack.decode(data)
    return {name: None if schema is None else ToolSchema(schema) for name, schema in tools}


def is_remembered(session: Session, engine: Engine) -> bool:
    """Whether rules that stop know something of a session that a new one of its id would not have."""
    lasting, bounds = engine.lasting, engine.bounds
    if not lasting:
        return False
    if session.cut or session.forgotten is not None or session.memory or session.earlier is not None:
        return True
    for address, slot in session.slots.items():
        number = number_of(address)
        if number in lasting and (slot.state != bounds[number].default or slot.since is not None):
            return True
    return False


def unpack(
    session_id: str, blob: bytes, engine: Engine, counts: Counts, *, keep_strangers: bool = False
) -> Session | None:
    """Return the session, or None when it was written in another format.

    States of rules that are gone or edited are dropped and counted. The other rules keep theirs; one that stops and
    whose state cannot be read is marked as cut. ``keep_strangers`` is for rows that others read who may judge by
    another policy: states that this one does not know stay as they are.
    """
    row = read_row(blob)
    if row is None:
        counts.state_resets += 1
        return None
    session = Session(session_id)
    session.last_session_id, session.last_event_id, session.last_run_id = row.session_id, row.last_event_id, row.run_id
    session.last_agent, session.last_labels = row.agent, row.labels
    session.now = -inf if row.time is None else row.time
    session.turns, session.part = row.turns, row.part
    session.seq, session.lag = row.seq, row.lag
    session.explicit_part = row.explicit_part
    for time, _, event in sorted(row.buffer, key=itemgetter(1)):
        session.hold_back(event, time)
    for call in row.open:
        if row.policy_version != engine.policy.version:
            call.objections = None
        session.calls.add(call)
    session.part_active, session.fresh_part, session.answered, ended, session.calls.lost, over = (
        bool(row.flags >> bit & 1) for bit in range(6)
    )
    session.end_judged = row.seq if over else -1
    session.life = Life.LIVE if not row.resting else Life.ENDED if ended else Life.RESTING
    lasting = session.lasting
    lasting.attempts = row.attempts
    lasting.ids.restore(row.recent, row.older, row.contents)
    lasting.told.restore(*row.told)
    lasting.catalogue = read_catalogue(row.catalogue)
    session.memory = set(row.memory)
    if row.before:
        session.earlier = unpack(session_id, row.before, engine, counts, keep_strangers=keep_strangers)
    if row.forgotten:
        session.forgotten = Sketch(bytearray(row.forgotten))
    if keep_strangers:
        unevaluable, cut = ([tag for tag in tags if tag not in engine.by_tag] for tags in (row.unevaluable, row.cut))
        session.strangers = Strangers(tuple(unevaluable), tuple(cut), row.idle)
    _restore_rules(session, row, engine, counts, most_strangers=engine.max_states if keep_strangers else 0)
    return session


def _restore_rules(
    session: Session, row: StoredSession, engine: Engine, counts: Counts, *, most_strangers: int
) -> None:
    by_tag = engine.by_tag
    unreadable = _restore_slots(session, row, engine, counts, most_strangers)
    session.unevaluable = frozenset([by_tag[tag].number for tag in row.unevaluable if tag in by_tag])
    session.cut = engine.lasting & {by_tag[tag].number for tag in (*row.cut, *unreadable) if tag in by_tag}
    engine.restore(session)


def _slot_at(
    session: Session, by_tag: dict[int, BoundRule], most_strangers: int, tag: int, key: tuple[str, ...]
) -> Slot:
    """Return the slot of a name in a row; a new one where there is none yet."""
    bound = by_tag.get(tag)
    if bound is None:
        strangers = session.strangers.slots
        if (tag, key) not in strangers and len(strangers) >= most_strangers:
            return Slot(NO_STATE)  # of a rule that is gone
        return strangers.setdefault((tag, key), Slot(NO_STATE))
    address: Address = (bound.number, *key) if key else bound.number
    slot = session.slots.get(address)
    if slot is None:
        slot = session.slots[address] = Slot(bound.new_state())
    return slot


def _restore_slots(
    session: Session, row: StoredSession, engine: Engine, counts: Counts, most_strangers: int
) -> list[int]:
    """Fill the slots of a session from its row; return the tags of rules whose states cannot be read."""
    by_tag, strangers = engine.by_tag, session.strangers.slots
    slot_at = partial(_slot_at, session, by_tag, most_strangers)
    unreadable: list[int] = []
    for tag, key, raw in row.states:
        bound = by_tag.get(tag)
        try:
            if bound is not None:
                slot_at(tag, key).state = _read_state(raw, bound)
                continue
            if len(strangers) < most_strangers:
                slot_at(tag, key).state = raw
                continue
        except (ValueError, msgspec.MsgspecError):
            unreadable.append(tag)
        counts.state_resets += 1
    for tag, key in row.opened:
        slot_at(tag, key).opened = True
    for tag, key, last, suppressed in row.cooldowns:
        slot = slot_at(tag, key)
        slot.last, slot.suppressed = last, suppressed
    for tag, key, since in row.holds:
        slot_at(tag, key).since = since
    return unreadable


def _read_state(stored: msgspec.Raw, bound: BoundRule) -> State:
    data = bytes(stored)
    if not data.startswith(_AS_JSON):
        return bound.decoder.decode(data)
    (state,) = json.loads(data[_EXTENSION.size :])
    return msgspec.convert(state, bound.rule.state_type, str_keys=True)


def read_row(value: bytes) -> StoredSession | None:
    """Return a session as it was stored, with the changes behind its row; None for a row of another format."""
    try:
        first, *rest = _split(value)
        row = _read_json(first) if is_json(first) else _decode_row(first)
        for change in rest:
            row = _changed(row, _decode_changes(change))
    except (ValueError, msgspec.MsgspecError, RecursionError):
        return None
    return row if row.version == ROW_VERSION else None


def _read_json(data: bytes) -> StoredSession:
    fields = json.loads(data)
    states, fields[_STATES] = fields[_STATES], []
    row = msgspec.convert(fields, StoredSession, str_keys=True)
    for tag, key, state in msgspec.convert(states, list[tuple[int, tuple[str, ...], bytes]]):
        row.states.append((tag, key, msgspec.Raw(state)))
    return row


def _changed(row: StoredSession, changes: StoredChanges) -> StoredSession:
    """Return the later row that changes make of a row."""
    later = _decode_row(changes.row)
    calls = {call.attempt: call for call in row.open}
    for attempt in changes.closed:
        calls.pop(attempt, None)
    calls |= {call.attempt: call for call in later.open}
    states = {(tag, key): raw for tag, key, raw in row.states}
    for name in changes.dropped:
        states.pop(name, None)
    states |= {(tag, key): raw for tag, key, raw in later.states}
    later.open = sorted(calls.values(), key=attrgetter("attempt"))
    later.states = [(*name, raw) for name, raw in states.items()]
    # Event ids are only added, at the end of the recent ones; when those become the older ones, the row is written.
    recent = len(row.recent)
    later.contents = row.contents[:recent] + later.contents + row.contents[recent:]
    later.recent, later.older = row.recent + later.recent, row.older
    return later


def append(value: bytes, change: bytes) -> bytes:
    """Return a value with one more change behind it."""
    return append_all(value, _LENGTH.pack(len(change)) + change)


def append_all(value: bytes, changes: bytes) -> bytes:
    """Return a value with changes behind it, each of which has its length in front."""
    if not changes or value.startswith(_JOINED):
        return value + changes
    return _JOINED + _LENGTH.pack(len(value)) + value + changes


def _split(value: bytes) -> list[bytes]:
    """Return the row of a value, and the changes behind it in their order; ValueError for a value that was cut."""
    if not value.startswith(_JOINED):
        return [value]
    parts: list[bytes] = []
    place = len(_JOINED)
    while place < len(value):
        begin = place + _LENGTH.size
        if begin > len(value):
            raise ValueError("a change ends before its length does")
        (length,) = _LENGTH.unpack_from(value, place)
        place = begin + length
        if place > len(value):
            raise ValueError("a change is shorter than it says")
        parts.append(value[begin:place])
    return parts
