"""A session as a row of a store, and back."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from operator import attrgetter, itemgetter
from typing import Any, Final

import msgspec

from stream_guard.judge.bound import BoundRule
from stream_guard.judge.counts import Counts
from stream_guard.judge.fold import Engine
from stream_guard.judge.key_state import Address
from stream_guard.judge.session import Session, condense
from stream_guard.judge.sketch import Sketch
from stream_guard.judge.states import number_of
from stream_guard.judge.stored import ROW_VERSION, OpenCall, StoredSession, read_row

_encode: Final = msgspec.msgpack.Encoder().encode


def pack(session: Session, engine: Engine) -> bytes:
    """Return the session as bytes. States that equal their default are left out."""
    return encode_row(session, engine, list_states(session, engine), list_calls(session, engine), session.ids.stored())


def list_states(session: Session, engine: Engine) -> list[Any]:
    """Return the states that differ from their rule's default, each behind its name."""
    bounds = engine.bounds
    states: list[Any] = list(session.strangers)
    for address, state in session.states.items():
        if isinstance(address, int):  # nearly all; a state that is its rule's default costs a comparison and no more
            bound = bounds[address]
            if state != bound.default:
                states.append((bound.tag, (), state))
        elif state != bounds[int(address[0])].default:
            states.append((*_named(address, bounds), state))
    return states


def list_calls(session: Session, engine: Engine) -> list[OpenCall]:
    """Return the open calls in their order, each with as much of its arguments as is stored."""
    if not session.open:
        return []
    calls = sorted((call for calls in session.open.values() for call in calls), key=attrgetter("attempt"))
    for call in calls:
        condense(call, engine.arg_paths)
    return calls


def encode_row(
    session: Session, engine: Engine, states: list[Any], calls: Sequence[object], ids: tuple[bytes, bytes, bytes]
) -> bytes:
    """Return a row of the session with these states, open calls and event ids."""
    bounds = engine.bounds
    recent, older, contents = ids
    flags = session.part_active | session.fresh_part << 1 | session.answered << 2 | session.ended << 3
    flags |= session.lost_calls << 4
    return _encode(
        (
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
            session.attempts,
            session.lag,
            session.explicit_part,
            recent,
            older,
            sorted(session.memory),
            calls,
            states,
            [_named(address, bounds) for address in session.awaiting_end],
            sorted([bounds[number].tag for number in session.unevaluable]),
            [(*_named(address, bounds), *mark) for address, mark in session.cooldowns.items()],
            [(*_named(address, bounds), since) for address, since in session.holds.items()],
            session.buffer,
            engine.policy.version,
            session.resting,
            b"" if session.before is None else pack(session.before, engine),
            session.jump,
            contents,
            sorted([bounds[number].tag for number in session.cut] + session.cut_strangers),
            b"" if session.forgotten is None else session.forgotten.bits,
        )
    )


def is_remembered(session: Session, engine: Engine) -> bool:
    """Whether rules that stop know something of a session that a new one of its id would not have."""
    lasting, bounds = engine.lasting, engine.bounds
    if not lasting:
        return False
    if session.cut or session.forgotten is not None or session.memory or session.before is not None:
        return True
    for address, state in session.states.items():
        number = number_of(address)
        if number in lasting and state != bounds[number].default:
            return True
    return False


def _named(address: Address, bounds: tuple[BoundRule, ...]) -> tuple[int, tuple[str, ...]]:
    """Return an address as it is stored: the tag of its rule, and the values of its key."""
    if isinstance(address, int):
        return bounds[address].tag, ()
    return bounds[int(address[0])].tag, tuple(str(value) for value in address[1:])


def unpack(
    session_id: str, blob: bytes, engine: Engine, counts: Counts, *, keep_strangers: bool = False
) -> Session | None:
    """Return the session, or None when it was written in another format.

    States of rules that are gone or edited are dropped and counted. The other rules keep theirs; one that stops and
    whose state cannot be read is marked as cut. ``keep_strangers`` is
    for rows that others read who may judge by another policy: states that this one does not know stay as they are.
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
    session.seq, session.attempts, session.lag = row.seq, row.attempts, row.lag
    session.explicit_part = row.explicit_part
    for time, _, event in sorted(row.buffer, key=itemgetter(1)):
        session.hold_back(event, time)
    for call in row.open:
        if row.policy_version != engine.policy.version:
            call.objections = None
        session.add_open(call)
    session.part_active, session.fresh_part, session.answered, session.ended, session.lost_calls = (
        bool(row.flags >> bit & 1) for bit in range(5)
    )
    session.ids.restore(row.recent, row.older, row.contents)
    session.memory = set(row.memory)
    session.resting, session.jump = row.resting, row.jump
    session.written_under = row.policy_version
    if row.before:
        session.before = unpack(session_id, row.before, engine, counts, keep_strangers=keep_strangers)
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

    def address(tag: int, key: tuple[str, ...]) -> Address:
        number = by_tag[tag].number
        return (number, *key) if key else number

    unreadable: list[int] = []
    for tag, key, raw in row.states:
        bound = by_tag.get(tag)
        try:
            state = bound.decoder.decode(raw) if bound is not None else None
        except msgspec.MsgspecError:
            state = None
            unreadable.append(tag)
        if state is None:
            counts.state_resets += 1
        else:
            session.states[address(tag, key)] = state
    session.awaiting_end = {address(tag, key): None for tag, key in row.awaiting_end if tag in by_tag}
    session.unevaluable = {by_tag[tag].number for tag in row.unevaluable if tag in by_tag}
    session.cut = frozenset([by_tag[tag].number for tag in row.cut if tag in by_tag])
    if unreadable:
        session.cut |= engine.lasting & {by_tag[tag].number for tag in unreadable}
    session.cooldowns = {address(tag, key): (last, held) for tag, key, last, held in row.cooldowns if tag in by_tag}
    session.holds = {address(tag, key): since for tag, key, since in row.holds if tag in by_tag}
    engine.restore_timers(session)
