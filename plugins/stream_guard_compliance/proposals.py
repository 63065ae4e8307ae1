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
MOST_QUOTE: Final = 2000  # characters
MOST_EVENTS: Final = 50  # of a trace that shows what is meant


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What a model says that a piece of the prompt states; ``proposed_frames`` has the frames and what each needs."""

    quote: str  # letter for letter, white space aside
    kind: ProposedKind
    shape: str = ""  # which rule of its kind
    tools: tuple[str, ...] = ()  # of an order: what must wait
    first: tuple[str, ...] = ()  # of an order: what must come first
    most: float | None = None  # of a limit: calls that are still fine; of an argument: its largest value
    least: float | None = None  # of an argument: its smallest value
    unit: str = ""  # of a length: words, chars, sentences, lines or paragraphs
    texts: tuple[
        str, ...
    ] = ()  # what must not be said or stand in arguments, or has to be said; forms, folders, values
    argument: str = ""  # the name of the argument that it is about; several with a comma
    place: Literal["", "start", "end"] = ""  # where in a response or an argument the text stands
    files: tuple[str, ...] = ()  # it is about calls that name such a file alone: "image", or an ending, "*.md"
    either: bool = False  # of several tools that come first, or must be called, one is enough
    unless_asked: bool = False  # the user may ask for it
    in_case: bool = False  # it holds in the case that the sentence begins with, and the trace can tell it
    said: tuple[str, ...] = ()  # of a case: what the user says, as it stands in the sentence
    breaks: tuple[dict[str, Any], ...] = ()  # events as ``check_compliance`` takes them
    keeps: tuple[dict[str, Any], ...] = ()


class RefusedProposalError(ValueError):
    """A proposal says something that its quote does not show."""
