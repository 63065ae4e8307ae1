"""The states of all rules for one value of a key, with their timers, cooldowns and memory."""

from __future__ import annotations

from math import inf
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stream_guard.judge.forgotten import Sketch
from stream_guard.judge.model import Event, SessionEnd
from stream_guard.judge.rule import State

Address: TypeAlias = int | tuple[int | str, ...]
"""Where a rule's state stands in a ``KeyState``: the rule's number, then the values of its key, if it has one."""

_NOTHING: Final[frozenset[int]] = frozenset()


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


class KeyState:
    """The state of one session, or of one value of a key that spans sessions."""

    __slots__ = (
        "cut",
        "forgotten",
        "id",
        "keyed",
        "last_agent",
        "last_event_id",
        "last_labels",
        "last_run_id",
        "last_session_id",
        "memory",
        "now",
        "part",
        "part_active",
        "slots",
        "timers",
        "turns",
        "twinned",
        "unevaluable",
    )

    def __init__(self, key_id: str) -> None:
        self.id = key_id
        # Of the last event: what has no event of its own carries these. The event itself would keep its whole body.
        self.last_session_id = key_id
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
        self.twinned: set[Address] = set()  # where slots of twins stand, so not stored
        self.timers: dict[Address, float] = {}  # derived from the states, so not stored
        self.memory: set[int] = set()  # tags of the conditions that held at the last turn or user message
        self.unevaluable: set[int] = set()  # rules that could not judge an event
        # Rules that stop, and lost what they remembered when this state was closed for want of room.
        self.cut: frozenset[int] = _NOTHING
        self.forgotten: Sketch | None = None  # addresses of states of such rules that were forgotten one by one

    @property
    def end_of_what(self) -> str:
        """What tells its end from other ends, however it came to light."""
        return "" if self.now == -inf else str(self.now)

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
