"""Which open attempt a tool-use block or a tool_call event tells of again: one attempt is counted once.

Ids decide where both have one. A block without an id and its call with one, or the other way round, are one attempt if
the tool and the arguments are the same; it then has the id. Where a source leaves the arguments out, nothing
contradicts that it is the attempt of the same id and tool (``Leniency``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

from stream_guard.judge.equality import json_equal
from stream_guard.judge.model import Json, ToolCall
from stream_guard.judge.session import Session
from stream_guard.judge.stored import OpenCall


class Leniency(NamedTuple):
    """Which of two sightings of one id and tool may leave the arguments out.

    The later may, unless somebody waits for the answer to it: what it will run with is then unknown. The earlier may
    where no rule reads arguments: the attempt was judged without them.
    """

    later: bool
    earlier: bool

    def covers(self, call: OpenCall, tool: str, args: Json) -> bool:
        """Whether an open attempt and a call of the same id are one, one of them without arguments."""
        if tool != call.tool or (args is None) == call.lacks_args():
            return False
        return self.later if args is None else self.earlier


def match_block(
    session: Session, call_id: str, tool: str, args: Json, contested: str, leniency: Leniency
) -> OpenCall | None:
    """Return the open attempt that an event reported and no block announced yet, or None.

    Two blocks are two attempts, even under one id.
    """
    candidates = _candidates(session, call_id)
    for number in range(len(candidates) - 1, -1, -1):  # compiled, reversed() is an object and calls
        call = candidates[number]
        if not call.in_event or call.in_block:
            continue
        lenient = call_id != "" and call.call_id == call_id and not contested
        if _same_call(call, tool, args, contested=contested != "") or (lenient and leniency.covers(call, tool, args)):
            if call.args is None:
                _complete(call, args)
            call.in_block = True
            if call_id and not call.call_id:
                _name(session, call, call_id)
            return call
    return None


def match_event(
    session: Session, event: ToolCall, leniency: Leniency, whose: tuple[str, ...] = (), after: float = -inf
) -> OpenCall | None:
    """Return the open attempt that an event reports again, or None.

    That is an attempt that a block announced and no event reported yet, or one that another event of the same id
    reported. Without ids, two events are two attempts. A question is about an attempt that nobody asked about yet; the
    table knows a question again by its event id. One without such an id is asked again only where the answer was no.
    ``whose`` it is, and that it was told ``after`` some time, must fit, or limits have counted it for somebody else.
    """
    call_id, contested = event.call_id, event.contested != ""
    asked, unnamed = event.asked, event.event_id[:1] == "~"
    candidates = _candidates(session, call_id)
    for number in range(len(candidates) - 1, -1, -1):  # compiled, reversed() is an object and calls
        call = candidates[number]
        same_id = call_id != "" and call.call_id == call_id
        if not (same_id if call.in_event else call.in_block):
            continue
        if asked and not _may_be_asked(call, unnamed, whose, after):
            continue
        if _same_call(call, event.tool, event.args, contested=contested) or (
            same_id and not contested and leniency.covers(call, event.tool, event.args)
        ):
            if call.args is None:
                _complete(call, event.args)
            call.in_event = True
            if call_id and not call.call_id:
                _name(session, call, call_id)
            return call
    return None


def _may_be_asked(call: OpenCall, unnamed: bool, whose: tuple[str, ...], after: float) -> bool:
    """Whether a question may be about an attempt: of the same caller and asked about first, or refused before."""
    if not call.asked:
        return call.whose == whose and (call.since is None or call.since > after)
    return unnamed and call.refused and call.event_id[:1] == "~"


def _same_call(call: OpenCall, tool: str, args: Json, *, contested: bool) -> bool:
    """Whether a call is an open attempt; most are told of at once, with arguments, and nothing against them."""
    if contested or call.objections or call.digest != 0 or args is None or call.args is None:
        return call.same_call(tool, args, contested=contested)
    return tool == call.tool and json_equal(args, call.args)


def _complete(call: OpenCall, args: Json) -> None:
    """Give an attempt the arguments that its first sighting left out: a call with others is another one."""
    if args is not None and call.lacks_args():
        call.digest, call.args, call.exact = 0, args, b""


def _candidates(session: Session, call_id: str) -> list[OpenCall]:
    """Return the open attempts that may be meant; those of the same id are last, and so are tried first."""
    same = session.open.get(call_id)
    if same is None:
        same = []
    elif len(session.open) == 1:
        return same
    # Only those of the last turn, and of the moment before it: an old attempt that never ran stays its own.
    recent = session.turns - 2
    if call_id:
        nameless = session.open.get("")
        if nameless is None:
            return same
        others: Iterable[Sequence[OpenCall]] = (nameless,)
    else:
        others = (calls for known, calls in session.open.items() if known)
    near = [call for calls in others for call in calls if call.index >= recent]
    return [*reversed(near), *same] if near else same


def _name(session: Session, call: OpenCall, call_id: str) -> None:
    """Give an attempt without an id the id that it turned out to have: its result will come with it."""
    session.drop_open(call)
    call.call_id = call_id
    session.add_open(call)
