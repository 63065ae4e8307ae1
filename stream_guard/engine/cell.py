"""What the engine remembers of one key: the rules' states and their bookkeeping."""

from __future__ import annotations

from typing import TypeAlias

from stream_guard.rule import State

Address: TypeAlias = int | tuple[int | str, ...]
"""Where a state stands in its cell: the rule's number, followed by the key's values when it has some."""


class Cell:
    """The memory of one session, or of one value of a key that spans sessions."""

    __slots__ = (
        "agent",
        "blind",
        "cooldowns",
        "holds",
        "id",
        "judged",
        "labels",
        "last_event_id",
        "memory",
        "now",
        "part",
        "part_active",
        "run_id",
        "session_id",
        "states",
        "timers",
        "turns",
    )

    def __init__(self, cell_id: str) -> None:
        self.id = cell_id
        self.session_id = cell_id  # whose event came last; differs from ``id`` for keys that span sessions
        self.run_id = ""
        self.agent = ""
        self.labels: dict[str, str] = {}
        self.last_event_id = ""
        self.now: float | None = None  # the latest event time seen: the cell's own clock
        self.turns = 0
        self.part = 0  # how many user-initiated parts came before the current one
        self.part_active = False  # a turn or a call came in the current part
        self.states: dict[Address, State] = {}
        self.timers: dict[Address, float] = {}  # derived from the states, so never stored
        self.memory: set[int] = set()  # tags of the conditions that held at the last turn or user message
        self.judged: dict[Address, None] = {}  # an ordered set: gated rules with an end to judge, once the gate opened
        self.blind: set[int] = set()  # rules that met an event they could not judge
        self.cooldowns: dict[Address, tuple[float, int]] = {}  # last finding, findings held back since
        self.holds: dict[Address, float] = {}  # since when a rule with `for` has been hitting without a break
