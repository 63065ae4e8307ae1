"""What the engine remembers of one key: the rules' states and their bookkeeping."""

from __future__ import annotations

from math import inf
from typing import Literal, TypeAlias

from stream_guard.model import Event, SessionEnd
from stream_guard.rule import State

Address: TypeAlias = int | tuple[int | str, ...]
"""Where a rule's state stands in a ``KeyState``: the rule's number, then the values of its key, if it has one."""


class KeyState:
    """The memory of one session, or of one value of a key that spans sessions."""

    __slots__ = (
        "asleep",
        "blind",
        "cooldowns",
        "holds",
        "id",
        "judged",
        "last",
        "memory",
        "now",
        "part",
        "part_active",
        "states",
        "timers",
        "turns",
    )

    def __init__(self, key_id: str) -> None:
        self.id = key_id
        self.last: Event | None = None  # what came last: whose agent, run and labels a late finding carries
        self.now = -inf  # the latest event time seen
        self.turns = 0
        self.part = 0  # how many user-initiated parts came before the current one
        self.part_active = False  # a turn or a call came in the current part
        self.states: dict[Address, State] = {}
        self.asleep = 0  # a bit for each rule that will say no more; rules say it again when asked, so never stored
        self.timers: dict[Address, float] = {}  # derived from the states, so never stored
        self.memory: set[int] = set()  # tags of the conditions that held at the last turn or user message
        self.judged: dict[Address, None] = {}  # an ordered set: gated rules with an end to judge, once the gate opened
        self.blind: set[int] = set()  # rules that met an event they could not judge
        self.cooldowns: dict[Address, tuple[float, int]] = {}  # last finding, findings held back since
        self.holds: dict[Address, float] = {}  # since when a rule with `for` has been hitting without a break

    @property
    def time(self) -> float | None:
        """The latest event time seen, or None when no event had a time."""
        return None if self.now == -inf else self.now

    def make_end(self, reason: Literal["closed", "idle", "end_of_input"], time: float | None) -> SessionEnd:
        """Return the end event. It carries the session, agent, run and labels of the last event."""
        last = self.last
        if last is None:
            return SessionEnd(session_id=self.id, time=time, reason=reason)
        return SessionEnd(
            session_id=last.session_id,
            event_id=last.event_id,
            time=time,
            run_id=last.run_id,
            agent=last.agent,
            labels=last.labels,
            index=self.turns - 1,
            reason=reason,
        )
