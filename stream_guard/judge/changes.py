"""What a gate writes of a session whose row is stored already: what has changed, behind the row (docs/adr/0031)."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any, Final, TypeAlias

import msgspec

from stream_guard.judge.fold import Engine
from stream_guard.judge.marks import StoredMarks
from stream_guard.judge.packing import encode_row, list_calls, list_states
from stream_guard.judge.session import Session
from stream_guard.judge.stored import OpenCall, StoredChanges, StoredName

_encode: Final = msgspec.msgpack.Encoder().encode
_SMALL: Final = 2048  # bytes of a row that is as well written whole
_CHANGE: Final = 256  # bytes that an event changes, about

NamedState: TypeAlias = tuple[int, tuple[str, ...], Any]


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
    states, calls = list_states(session, engine), list_calls(session, engine)
    return StoredMarks(_encoded_states(states), _encoded_calls(calls), session.ids.mark(), room)


def take_changes(session: Session, engine: Engine) -> bytes | None:
    """Return what has changed since the session's marks, and move them; None where the whole row is to be written."""
    marks = session.marks
    fresh = session.ids.since(marks.ids) if marks is not None else None
    if marks is None or fresh is None:
        return None
    states = _encoded_states(list_states(session, engine))
    calls = _encoded_calls(list_calls(session, engine))
    row = encode_row(
        session,
        engine,
        [(*name, msgspec.Raw(state)) for name, state in states.items() if marks.states.get(name) != state],
        [msgspec.Raw(call) for attempt, call in calls.items() if marks.calls.get(attempt) != call],
        fresh,
    )
    closed = [attempt for attempt in marks.calls if attempt not in calls]
    dropped = [name for name in marks.states if name not in states]
    change = _encode(StoredChanges(msgspec.Raw(row), closed, dropped))
    if len(change) > marks.room:
        return None
    session.marks = StoredMarks(states, calls, session.ids.mark(), marks.room - len(change))
    return change


def _encoded_states(states: Sequence[NamedState]) -> dict[StoredName, bytes]:
    # Whole: where somebody finds another state for a digest, a change would be left out.
    return {(tag, key): _encode(state) for tag, key, state in states}


def _encoded_calls(calls: Sequence[OpenCall]) -> dict[int, bytes]:
    return {call.attempt: _encode(call) for call in calls}
