"""What a sentence was read as: the sort of rule, what it is about, and how far a machine can check it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "forbid_tool",
    "forbid_arg",
    "allow_only",
    "forbid_output",
    "require_output",
    "require_tool",
    "limit",
    "order",
    "confirm_before",
    "conditional",
    "ambiguous",
    "none",
    "unparsed",
]
SeverityWord: TypeAlias = Literal["critical", "high", "medium", "low"]
PER_AGENT: Final = "agent"
TEXT_WITH_CALLS: Final = "text_with_calls"


@dataclass(frozen=True, slots=True)
class Reading:
    """One sentence, read."""

    kind: Kind
    items: tuple[str, ...] = ()
    why: str = ""  # for what is no rule, and for what could not be read
    # What compiling needs to know beyond the items.
    first: tuple[str, ...] = ()  # tools of an order: what must come first
    second: tuple[str, ...] = ()  # and what must wait
    each_time: bool = False  # every call of what must wait needs its own
    stems: tuple[str, ...] = ()  # beginnings of words, where an action is described and no tool is named
    destructive: bool = False
    over: float | None = None  # an amount over which the rule holds
    by: str = ""  # who alone may do it, or who must approve
    place: Literal["", "start", "end"] = ""  # where in a response a text must stand
    each: bool = True  # every response, or one of the session's
    per_part: bool = False  # counted anew whenever the user writes
    window: bool = False  # limited by a span of time, which nothing here can count
    details: tuple[str, ...] = field(default=())  # the condition, as it was written
