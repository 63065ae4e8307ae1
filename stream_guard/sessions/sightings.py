"""Which open attempt a tool-use block or a tool_call event tells of again: one attempt is counted once.

Ids decide where both have one. A block without an id and its call with one, or the other way round, are one attempt if
the tool and the arguments are the same; it then has the id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stream_guard.language.arguments import Arguments
from stream_guard.model import ToolCall
from stream_guard.sessions.session import Session
from stream_guard.sessions.stored import OpenCall


def match_block(session: Session, call_id: str, tool: str, reading: Arguments) -> OpenCall | None:
    """Return the open attempt that an event reported and no block announced yet, or None.

    Two blocks are two attempts, even under one id.
    """
    for call in reversed(_candidates(session, call_id)):
        same = call.in_event and not call.in_block
        if same and call.same_call(tool, reading.value, contested=reading.contested != ""):
            call.in_block = True
            _name(session, call, call_id)
            return call
    return None


def match_event(session: Session, event: ToolCall) -> OpenCall | None:
    """Return the open attempt that an event reports again, or None.

    That is an attempt that a block announced and no event reported yet, or one that another event of the same id
    reported. Without ids, two events are two attempts.
    """
    call_id, contested = event.call_id, event.contested != ""
    for call in reversed(_candidates(session, call_id)):
        is_meant = call_id != "" and call.call_id == call_id if call.in_event else call.in_block
        if is_meant and call.same_call(event.tool, event.args, contested=contested):
            call.in_event = True
            _name(session, call, call_id)
            return call
    return None


def _candidates(session: Session, call_id: str) -> Sequence[OpenCall]:
    """Return the open attempts that may be meant; those of the same id are last, and so are tried first."""
    same = session.open.get(call_id, ())
    if len(session.open) == (1 if same else 0):
        return same
    # Only those of the last turn, and of the moment before it: an old attempt that never ran stays its own.
    recent = session.turns - 2
    if call_id:
        others: Iterable[Sequence[OpenCall]] = (session.open.get("", ()),)
    else:
        others = (calls for known, calls in session.open.items() if known)
    near = [call for calls in others for call in calls if call.index >= recent]
    return [*reversed(near), *same] if near else same


def _name(session: Session, call: OpenCall, call_id: str) -> None:
    """Give an attempt without an id the id that it turned out to have: its result will come with it."""
    if call_id and not call.call_id:
        session.drop_open(call)
        call.call_id = call_id
        session.add_open(call)
