"""What a session stores: itself as a row, and its open calls.

The structs have a module of their own because msgspec reads annotations when a class is defined, and a compiled
module keeps no annotations (docs/adr/0015).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b
from math import inf
from operator import attrgetter
from typing import Final, TypeAlias

import msgspec
import xxhash

from stream_guard.judge.appended import split
from stream_guard.judge.equality import json_equal
from stream_guard.judge.model import Event, Json, resolved
from stream_guard.judge.objections import CONTESTED, Objection

StoredName: TypeAlias = tuple[int, tuple[str, ...]]
"""Where a rule's state stands in a stored session: the tag of the rule, and the values of its key."""

ROW_VERSION: Final = 1
FRESH: Final = 20.0  # seconds in which a yes may be asked for again, because the answer was lost


@resolved
class OpenCall(msgspec.Struct, array_like=True, gc=False):
    """A tool call that has no result yet."""

    call_id: str
    tool: str
    attempt: int
    index: int
    in_block: bool  # a turn's tool-use block announced it
    in_event: bool  # a tool_call event reported it
    digest: int = 0  # of the arguments; 0 until it is needed
    args: Json = None  # complete in memory; a stored session keeps only what the policy reads
    exact: bytes = b""  # of a stored session: the digest that no other arguments have
    event_id: str = ""  # under which it was asked or told, if it was
    refused: bool = False  # a gate refused it, and the rules were told
    # What rules have against it, by their numbers in the policy; None: this policy has not judged it.
    objections: tuple[Objection, ...] | None = None
    asked: bool = False  # a gate was asked about it
    since: float | None = None  # when it was told or asked about, or allowed after a refusal
    whose: tuple[str, ...] = ()  # the values of whoever told of it first, by which keys of rules that stop count it

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

    def same_call(self, tool: str, args: Json, *, contested: bool = False) -> bool:
        """Whether a call with this tool and these arguments is this attempt.

        Contested arguments are never those that one reader takes from them.
        """
        if tool != self.tool or contested != (bool(self.objections) and self._is_contested()):
            return False
        if self.digest == 0:
            if args is None or self.args is None:  # left out, as some sources leave out an empty object
                return not args and not self.args
            return json_equal(args, self.args)  # not `==`: there true equals 1, and deep nesting raises
        if not self.exact:  # stored by an earlier version
            return self.digest == args_digest(args)
        if args is None or (isinstance(args, dict) and not args):  # some sources leave out an empty object
            return self.exact in (_NO_ARGS, _EMPTY_ARGS)
        return self.exact == exact_digest(args)

    def lacks_args(self) -> bool:
        """Whether what told of this attempt left its arguments out."""
        return self.args is None and (self.digest == 0 or self.exact == _NO_ARGS)

    def _is_contested(self) -> bool:
        return any(one.cause == CONTESTED for one in self.objections or ())


def args_digest(args: Json) -> int:
    """Return a number that is the same for equal arguments, in any order of keys; never 0."""
    return xxhash.xxh3_64_intdigest(_encoded(msgspec.json.encode, args)) or 1


def exact_digest(args: Json) -> bytes:
    """Return a digest that nobody can find other arguments for; msgpack tells NaN and Infinity from null."""
    return blake2b(_encoded(msgspec.msgpack.encode, args), digest_size=16).digest()


def _encoded(encode: Callable[..., bytes], args: Json) -> bytes:
    """Encode arguments, those too that an agent's process may hold and no store can."""
    try:
        return encode(args, order="sorted")
    except (OverflowError, ValueError, TypeError):  # an integer too large, half a surrogate pair
        return b"~" + json.dumps(args, sort_keys=True, default=repr).encode()
    except RecursionError:
        return _walked(args)


def _walked(args: Json) -> bytes:
    """Encode arguments of any depth in a loop, each value before what is in it, with its length."""
    pieces: list[str] = []
    waiting: list[tuple[str, Json]] = [("", args)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            pieces.append(f"{json.dumps(key)}:{{{len(value)}")
            waiting += [(name, value[name]) for name in sorted(value, reverse=True)]
        elif isinstance(value, list):
            pieces.append(f"{json.dumps(key)}:[{len(value)}")
            waiting += [("", item) for item in reversed(value)]
        else:
            pieces.append(f"{json.dumps(key)}:{json.dumps(value, default=repr)}")
    return "~".join(pieces).encode()


_NO_ARGS: Final = exact_digest(None)  # in rows of versions before 0.2 it was that of an empty object
_EMPTY_ARGS: Final = exact_digest({})


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
    awaiting_end: list[tuple[int, tuple[str, ...]]]
    unevaluable: list[int]
    cooldowns: list[tuple[int, tuple[str, ...], float, int]]
    holds: list[tuple[int, tuple[str, ...], float]]
    buffer: list[tuple[float, int, Event]]
    policy_version: str = ""  # under which the open calls were judged
    # Rows of an earlier version end here, and an earlier version ignores what follows.
    resting: bool = False
    before: bytes = b""  # a row of the session from before a jump in time
    jump: Event | None = None
    contents: bytes = b""  # digests of what the event ids stood for, those of `recent` first
    cut: list[int] = []  # tags of the rules that lost what they remembered
    forgotten: bytes = b""  # a sketch of the addresses of states that were forgotten


@resolved
class StoredChanges(msgspec.Struct, array_like=True, gc=False):
    """What has changed in a session since its row was stored; it stands behind the row."""

    row: msgspec.Raw  # a StoredSession, with only those calls, states and event ids that are new or have changed
    closed: list[int]  # attempts of calls that are not open any longer
    dropped: list[StoredName]  # states that are no longer there


_decode_row: Final = msgspec.msgpack.Decoder(StoredSession).decode
_decode_changes: Final = msgspec.msgpack.Decoder(StoredChanges).decode


def read_row(blob: bytes) -> StoredSession | None:
    """Return a session as it was stored, with the changes behind its row; None for a row of another format."""
    try:
        first, *rest = split(blob)
        row = _decode_row(first)
        for change in rest:
            row = _changed(row, _decode_changes(change))
    except (ValueError, msgspec.MsgspecError):
        return None
    return row if row.version == ROW_VERSION else None


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
