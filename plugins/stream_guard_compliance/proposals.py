"""Readings that a model proposes: a piece of a sentence, what it states, and traces that break it and keep it."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

ProposedKind: TypeAlias = Literal[
    "forbid_tool",
    "allow_only",
    "require_tool",
    "order",
    "confirm_before",
    "limit",
    "forbid_output",
    "forbid_arg",
    "require_output",
]
ProposedShape: TypeAlias = Literal[
    "", "per_turn", "alone", "last", "repeat", "not_after", "first_action", "finish", "argument", "command"
]
MOST_QUOTE: Final = 2000  # characters
MOST_EVENTS: Final = 50  # of a trace that shows what is meant


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What a model says that a piece of the prompt states."""

    quote: str  # letter for letter, white space aside
    kind: ProposedKind
    tools: tuple[str, ...] = ()  # of an order: what must wait
    first: tuple[str, ...] = ()  # of an order: what must come first
    most: int | None = None  # of a limit: calls that are still fine; of an argument: its largest value
    least: int | None = None  # of an argument: its smallest value
    texts: tuple[str, ...] = ()  # what must not be said or stand in arguments, or has to be said
    shape: ProposedShape = ""  # which rule of its kind
    argument: str = ""  # the name of the argument that it is about
    place: Literal["", "start", "end"] = ""  # where in a response the text stands
    unless_asked: bool = False  # the user may ask for it
    in_case: bool = False  # it holds in the case that the sentence begins with, and the trace can tell it
    breaks: tuple[dict[str, Any], ...] = ()  # events as ``check_compliance`` takes them
    keeps: tuple[dict[str, Any], ...] = ()


class RefusedProposalError(ValueError):
    """A proposal says something that its quote does not show."""
