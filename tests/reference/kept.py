"""What the reference keeps: findings, what rules remember, attempts, sessions and keys."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any

from stream_guard.judge.model import Event, ToolCall, Turn, UserMessage
from stream_guard.judge.spec import RuleSpec


@dataclass
class Found:
    """A finding. Two with one identity are one finding."""

    identity: Any
    slot: str
    at: str
    session: str  # empty at deadlines and ends of keys that span sessions
    time: float | None
    index: int | None
    detail: str


@dataclass(frozen=True)
class Item:
    """An event on its way to a place, and what a finding at it is about."""

    event: Event
    about: Any
    turn: Turn | None = None  # the last one of the session, which conditions go by
    user: UserMessage | None = None


@dataclass
class Slot:
    """What one rule remembers of one address, with what the judge remembers beside it."""

    spec: RuleSpec
    address: tuple[Any, ...]
    state: Any
    ends_blank: bool = False  # its end is judged even if it saw nothing
    told_at: float | None = None  # time of the last finding that was told, for the cooldown
    hits_since: float | None = None  # since when each event was a hit, for `for`


@dataclass
class Attempt:
    """One attempt at a tool, told of by a block, by an event, or by both."""

    call: ToolCall
    identity: Any
    by_block: bool
    by_event: bool
    is_open: bool = True


@dataclass
class Place:
    """What has a clock and ends: a session, or one value of a key that spans sessions."""

    id: str
    key: tuple[str, ...] = ("session",)
    values: tuple[Any, ...] = ()
    clock: float | None = None
    lag: float = 0.0  # of its clock behind the shared one, at its last event
    waiting: Item | None = None  # its stamp says that there was a pause, and nothing else does yet
    is_over: bool = False  # its end was judged, and nothing came since
    closed_at: float | None = None  # where the shared clock was when it found the place silent for too long
    slots: list[Slot] = field(default_factory=list)
    opened: set[Any] = field(default_factory=set)  # slots and addresses whose gate was open at a turn or a shown event
    unread: set[Any] = field(default_factory=set)  # those at which a shown event could not be told to be in the gate


@dataclass
class Session(Place):
    """A session. The first three fields last as long as its id, the others as long as its life."""

    seen: set[Any] = field(default_factory=set)
    unnamed: Counter[Any] = field(default_factory=Counter)
    tried: Counter[Any] = field(default_factory=Counter)
    attempts: list[Attempt] = field(default_factory=list)
    index: int = -1
    part: int = 0
    part_has_acts: bool = False
    user_waits: bool = False
    turn: Turn | None = None
    user: UserMessage | None = None

    def begin_life(self) -> None:
        fresh = Session(self.id)
        for each in fields(Session):
            if each.name not in {"id", "seen", "unnamed", "tried", "lag"}:
                setattr(self, each.name, getattr(fresh, each.name))
