"""A session as a row of a store, and back; and what a gate appends to a row instead of writing it again.

A value of a store is a row, or a row with changes behind it. Rows cannot fail whatever an event held: what msgpack has
no form for is written as JSON (``encoding``).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from functools import lru_cache
from math import inf, isqrt
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from stream_guard.judge.bound import NO_STATE, BoundRule
from stream_guard.judge.catalogue import Catalogue, ToolSchema
from stream_guard.judge.counts import Counts
from stream_guard.judge.encoding import encode, is_json
from stream_guard.judge.fold import Engine
from stream_guard.judge.key_state import Address, Slot
from stream_guard.judge.rule import State
from stream_guard.judge.session import Life, Session
from stream_guard.judge.sketch import Sketch
from stream_guard.judge.states import number_of
from stream_guard.judge.stored import (
    ROW_VERSION,
    OpenCall,
    StoredChanges,
    StoredMarks,
    StoredName,
    StoredSession,
)

_pack: Final = msgspec.msgpack.Encoder().encode
_decode_row: Final = msgspec.msgpack.Decoder(StoredSession).decode
_decode_changes: Final = msgspec.msgpack.Decoder(StoredChanges).decode
_STATES: Final = 18  # where the states stand in a row
_NO_KEY: Final[tuple[str, ...]] = ()
_SMALL: Final = 2048  # bytes of a row that is as well written whole
_CHANGE: Final = 256  # bytes that an event changes, about
_JOINED: Final = b"\xc1"  # msgpack never begins with it, so no row does
_LENGTH: Final = struct.Struct("<I")


def pack(session: Session, engine: Engine) -> bytes:
    """Return the session as bytes. Slots that have seen nothing are left out."""
    lasting = session.lasting
    told, schemas = lasting.told.stored(), write_catalogue(lasting.catalogue)
    slots, calls = _list_slots(session, engine), _list_calls(session, engine)
    return encode(_row(session, engine, slots, calls, lasting.ids.stored(), told, schemas))


class _Slots(NamedTuple):
    """What is stored of slots, each part behind the name of its slot."""

    states: list[Any]
    opened: list[StoredName]
    cooldowns: list[tuple[int, tuple[str, ...], float, int]]
    holds: list[tuple[int, tuple[str, ...], float]]


def _list_slots(session: Session, engine: Engine) -> _Slots:
    """Return what slots have seen: states that differ from their rule's default, and of keys all, in order of use."""
    bounds, marks = engine.bounds, engine.marks_slots
    found = _Slots(list(session.strangers), [], [], [])
    for address, slot in session.slots.items():
        if isinstance(address, int):  # nearly all; one that has seen nothing costs a comparison and no more
            bound = bounds[address]
            tag, key = bound.tag, _NO_KEY
            if slot.state != bound.default:
                found.states.append((tag, key, slot.state))
        else:
            tag, key = bounds[int(address[0])].tag, tuple(str(value) for value in address[1:])
            found.states.append((tag, key, slot.state))
        if not marks:
            continue
        if slot.opened:
            found.opened.append((tag, key))
        if slot.last is not None:
            found.cooldowns.append((tag, key, slot.last, slot.suppressed))
        if slot.since is not None:
            found.holds.append((tag, key, slot.since))
    return found


def _list_calls(session: Session, engine: Engine) -> list[OpenCall]:
    """Return the open calls in their order, each with as much of its arguments as is stored."""
    if not session.calls.by_id:
        return []
    calls = session.calls.in_order()
    for call in calls:
        call.keep_excerpt(engine.places)
    return calls


def _row(
    session: Session,
    engine: Engine,
    found: _Slots,
    calls: Sequence[object],
    ids: tuple[bytes, bytes, bytes],
    told: tuple[int, bytes, bytes],
    schemas: bytes,
) -> tuple[Any, ...]:
    """Return a row of the session with these slots, open calls, event ids, counts of attempts and declared tools."""
    bounds = engine.bounds
    recent, older, contents = ids
    flags = session.part_active | session.fresh_part << 1 | session.answered << 2
    flags |= (session.life is Life.ENDED) << 3 | session.calls.lost << 4 | (session.end_judged == session.seq) << 5
    return (
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
        session.lasting.attempts,
        session.lag,
        session.explicit_part,
        recent,
        older,
        sorted(session.memory),
        calls,
        found.states,
        found.opened,
        sorted([bounds[number].tag for number in session.unevaluable]),
        found.cooldowns,
        found.holds,
        [] if session.waiting is None else session.waiting.events,
        engine.policy.version,
        session.resting,
        b"" if session.earlier is None else pack(session.earlier, engine),
        None,
        contents,
        sorted([bounds[number].tag for number in session.cut] + session.cut_strangers),
        b"" if session.forgotten is None else session.forgotten.bits,
        told,
        schemas,
    )


def write_catalogue(known: Catalogue | None) -> bytes:
    """Return declared tools as bytes."""
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
        if number in lasting and slot.state != bounds[number].default:
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
    session.written_under = row.policy_version
    if row.before:
        session.earlier = unpack(session_id, row.before, engine, counts, keep_strangers=keep_strangers)
    if row.forgotten:
        session.forgotten = Sketch(bytearray(row.forgotten))
    if keep_strangers:
        _take_strangers(session, row, engine)
    _restore_rules(session, row, engine, counts)
    return session


def _take_strangers(session: Session, row: StoredSession, engine: Engine) -> None:
    """Take the states of rules that this policy does not have out of a row; beyond the limit they are dropped."""
    by_tag = engine.by_tag
    others: list[tuple[int, tuple[str, ...], msgspec.Raw]] = []
    for named in row.states:
        strange = named[0] not in by_tag and len(session.strangers) < engine.max_states
        (session.strangers if strange else others).append(named)
    row.states = others
    session.cut_strangers = [tag for tag in row.cut if tag not in by_tag]


def _restore_rules(session: Session, row: StoredSession, engine: Engine, counts: Counts) -> None:
    by_tag = engine.by_tag
    unreadable = _restore_slots(session, row, engine, counts)
    session.unevaluable = {by_tag[tag].number for tag in row.unevaluable if tag in by_tag}
    session.cut = frozenset([by_tag[tag].number for tag in row.cut if tag in by_tag])
    if unreadable:
        session.cut |= engine.lasting & {by_tag[tag].number for tag in unreadable}
    engine.restore(session)


def _restore_slots(session: Session, row: StoredSession, engine: Engine, counts: Counts) -> list[int]:
    """Fill the slots of a session from its row; return the tags of rules whose states cannot be read."""
    by_tag, slots = engine.by_tag, session.slots

    def slot_at(tag: int, key: tuple[str, ...]) -> Slot:
        bound = by_tag.get(tag)
        if bound is None:
            return Slot(NO_STATE)  # of a rule that is gone
        address: Address = (bound.number, *key) if key else bound.number
        slot = slots.get(address)
        if slot is None:
            slot = slots[address] = Slot(bound.new_state())
        return slot

    unreadable: list[int] = []
    for tag, key, raw in row.states:
        bound = by_tag.get(tag)
        try:
            if bound is not None:
                slot_at(tag, key).state = _read_state(raw, bound)
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


def _read_state(stored: Any, bound: BoundRule) -> State:
    if type(stored) is msgspec.Raw:
        return bound.decoder.decode(stored)
    state: State = msgspec.convert(stored, bound.rule.state_type, str_keys=True)  # of a row that was written as JSON
    return state


def read_row(value: bytes) -> StoredSession | None:
    """Return a session as it was stored, with the changes behind its row; None for a row of another format."""
    try:
        first, *rest = split(value)
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
    row.states = [(tag, tuple(key), state) for tag, key, state in states]
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
    later.told = _told(row.told, later.told)
    later.catalogue = later.catalogue or row.catalogue
    return later


def _told(first: tuple[int, bytes, bytes], later: tuple[int, bytes, bytes]) -> tuple[int, bytes, bytes]:
    """Return counts of attempts with those behind them; of a key that both have, the later one counts."""
    if not first[1] or not later[1]:
        return later[0], later[1] or first[1], later[2] if later[1] else first[2]
    counts = [part[2] or _ONE * (len(part[1]) // len(_ONE)) for part in (first, later)]
    return later[0], first[1] + later[1], counts[0] + counts[1]


_ONE: Final = (1).to_bytes(8, "little")


def mark(session: Session, engine: Engine, row: int, changes: int = 0) -> StoredMarks | None:
    """Return the marks of a session that is stored as it is, in so many bytes of its row and of changes behind it.

    None where the row is small, or where it was written under another policy: what rules had against an open call
    stands in the row by their numbers.
    """
    if row < _SMALL or session.written_under != engine.policy.version:
        return None
    # A store writes all changes of a row again with each further one, and the row when they find no room. With so much
    # room the sum of both is the least.
    room = isqrt(2 * _CHANGE * row) - changes
    lasting = session.lasting
    try:
        states = _encoded_states(_list_slots(session, engine).states)
        calls = _encoded_calls(_list_calls(session, engine))
    except (OverflowError, ValueError):  # what only a whole row can hold
        return None
    return StoredMarks(states, calls, lasting.ids.mark(), lasting.told.mark(), lasting.catalogue, room)


def take_changes(session: Session, engine: Engine) -> bytes | None:
    """Return what has changed since the session's marks, and move them; None where the whole row is to be written."""
    marks, lasting = session.marks, session.lasting
    fresh = lasting.ids.since(marks.ids) if marks is not None else None
    if marks is None or fresh is None:
        return None
    try:
        slots = _list_slots(session, engine)
        states = _encoded_states(slots.states)
        calls = _encoded_calls(_list_calls(session, engine))
        fresh_states = [
            (*name, msgspec.Raw(state)) for name, state in states.items() if marks.states.get(name) != state
        ]
        row = _pack(
            _row(
                session,
                engine,
                slots._replace(states=fresh_states),
                [msgspec.Raw(call) for attempt, call in calls.items() if marks.calls.get(attempt) != call],
                fresh,
                lasting.told.stored(marks.told),
                b"" if lasting.catalogue is marks.schemas else write_catalogue(lasting.catalogue),
            )
        )
    except (OverflowError, ValueError):
        return None
    closed = [attempt for attempt in marks.calls if attempt not in calls]
    dropped = [name for name in marks.states if name not in states]
    change = _pack(StoredChanges(msgspec.Raw(row), closed, dropped))
    if len(change) > marks.room:
        return None
    room = marks.room - len(change)
    session.marks = StoredMarks(states, calls, lasting.ids.mark(), lasting.told.mark(), lasting.catalogue, room)
    return change


def _encoded_states(states: Sequence[tuple[int, tuple[str, ...], Any]]) -> dict[StoredName, bytes]:
    # Whole: where somebody finds another state for a digest, a change would be left out.
    return {(tag, key): _pack(state) for tag, key, state in states}


def _encoded_calls(calls: Sequence[OpenCall]) -> dict[int, bytes]:
    return {call.attempt: _pack(call) for call in calls}


def frame(part: bytes) -> bytes:
    """Return a part behind its length, so that parts can stand one after the other."""
    return _LENGTH.pack(len(part)) + part


def append_all(value: bytes, frames: bytes) -> bytes:
    """Return a value with framed changes behind it."""
    if not frames or value.startswith(_JOINED):
        return value + frames
    return _JOINED + frame(value) + frames


def append(value: bytes, change: bytes) -> bytes:
    """Return a value with one more change behind it."""
    return append_all(value, frame(change))


def split(value: bytes) -> list[bytes]:
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


def measure(value: bytes) -> tuple[int, int]:
    """Return how many bytes the row of a value has, and the changes behind it."""
    if not value.startswith(_JOINED):
        return len(value), 0
    (length,) = _LENGTH.unpack_from(value, len(_JOINED))
    return length, len(value) - len(_JOINED) - _LENGTH.size - length
