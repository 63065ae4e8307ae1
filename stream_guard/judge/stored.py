"""The structs of stored sessions: a session as a row, and its open calls.

They have a module of their own because msgspec reads annotations when a class is defined, and a compiled module keeps
no annotations (docs/adr/0015).
"""

from __future__ import annotations

from math import inf
from typing import Final, TypeAlias

import msgspec

from stream_guard.judge.equality import json_equal
from stream_guard.judge.excerpts import Wanted, excerpt
from stream_guard.judge.identity import args_digest
from stream_guard.judge.model import Event, Json, resolved
from stream_guard.judge.objections import Objection

StoredName: TypeAlias = tuple[int, tuple[str, ...]]
"""Where a rule's slot stands in a stored session: the tag of the rule, and the values of its key."""

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
    excerpted: int = 0  # whether of its arguments only what the policy reads is left; 0: they are whole
    args: Json = None
    digest: bytes = b""  # of its arguments, once they are no longer whole: nobody can find others for it
    event_id: str = ""  # under which it was asked or told, if it was
    refused: bool = False  # a gate refused it, and the rules were told
    # What rules have against it, by their numbers in the policy; None: this policy has not judged it.
    objections: tuple[Objection, ...] | None = None
    asked: bool = False  # a gate was asked about it
    since: float | None = None  # when it was told or asked about, or allowed after a refusal
    whose: tuple[str, ...] = ()  # the values of whoever told of it first, by which keys of rules that stop count it
    before: int = 0  # how many attempts with its id, tool and arguments its session had before
    lacks_args: bool = False  # what told of it left its arguments out
    contested: bool = False  # common readers differ on what its arguments are

    def same_call(self, tool: str, args: Json, contested: bool) -> bool:
        """Whether a call with this tool and these arguments is this attempt; it never depends on what was stored."""
        if tool != self.tool or contested != self.contested:
            return False
        if self.excerpted:
            return self.digest == args_digest(args, contested)
        if args is None or self.args is None:  # left out, as some sources leave out an empty object
            return not args and not self.args
        return json_equal(args, self.args)  # not `==`: there true equals 1, and deep nesting raises

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


@resolved
class StoredChanges(msgspec.Struct, array_like=True, gc=False):
    """What had changed in a session since its row was stored; an earlier version wrote it behind the row."""

    row: msgspec.Raw  # a StoredSession, with only those calls, states and event ids that are new or have changed
    closed: list[int]  # attempts of calls that are not open any longer
    dropped: list[StoredName]  # states that are no longer there
