"""What a sentence was read as: the sort of rule, what it is about, and how far a machine can check it."""

from __future__ import annotations

from dataclasses import dataclass
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
    "permission",
    "none",
    "unparsed",
]
Modality: TypeAlias = Literal["must", "must_not", "may", "need_not", "advice", "fact"]
SeverityWord: TypeAlias = Literal["critical", "high", "medium", "low"]
PER_AGENT: Final = "agent"
TEXT_WITH_CALLS: Final = "text_with_calls"


@dataclass(frozen=True, slots=True)
class Reading:
    """One statement of a sentence, read."""

    kind: Kind
    items: tuple[str, ...] = ()
    why: str = ""  # for what is no rule, for what is left to judgement, and for what could not be read
    concrete: bool = False  # every content word is accounted for: it may be compiled
    proposed: bool = False  # by a model, and the verifier found nothing against it
    modality: Modality = "must"
    # What compiling needs to know beyond the items.
    first: tuple[str, ...] = ()  # tools of an order: what must come first
    second: tuple[str, ...] = ()  # and what must wait
    follows: bool = False  # the second must come when the first did
    either: bool = False  # of several tools one is enough
    each_time: bool = False  # every call of what must wait needs its own
    described: tuple[str, ...] = ()  # an action in words, where no tool is named
    destructive: bool = False
    over: float | None = None  # an amount over which the rule holds
    by: str = ""  # who alone may do it, or who must approve
    place: Literal["", "start", "end"] = ""  # where in a response a text must stand
    each: bool = True  # every response, or one of the session's
    window: bool = False  # limited by a span of time, which nothing here can count
    details: tuple[str, ...] = ()  # the condition, as it was written
    left: tuple[str, ...] = ()  # what the same sentence forbids and no rule can check
