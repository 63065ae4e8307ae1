"""What is learned from: the facts of each session, in a form that is small enough to keep for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from stream_guard.judge.model import Json
from stream_guard.learning.names import LearnedNames

Sources: TypeAlias = tuple[int, ...]
"""Where the values under one path come from: for each, the sources that said it, each a bit."""

USER = 1
"""The bit of the user among the sources; the others are tools."""


@dataclass(frozen=True, slots=True)
class Link:
    """An earlier call that looked up what a call is about: one of its arguments has the same value."""

    lookup: str  # the tool
    argument: str  # of the call
    lookup_argument: str
    equal: frozenset[tuple[str, str]]  # arguments of the call, each with a path in the result that has its value
    states: Mapping[str, Json]  # what the result says in one word, by path


@dataclass(slots=True)
class CallFacts:
    """One attempt at a tool."""

    tool: str
    agent: str
    time: float | None
    args: Mapping[str, Json]  # texts, numbers and booleans by dotted path
    origins: Mapping[str, Sources] = field(default_factory=dict)  # by argument
    chance: Mapping[str, Sources] = field(default_factory=dict)  # the same, asked of another session
    links: Sequence[Link] = ()
    failed: bool = False


@dataclass(slots=True)
class SessionFacts:
    """What one session did."""

    session_id: str
    calls: list[CallFacts] = field(default_factory=list)
    turns: int = 0
    tokens: int | None = None  # None: the recording does not say
    cost: float | None = None
    asked: bool = False  # a user wrote something
    opening: int | None = None  # a digest of what the user wrote first; None: a greeting says nothing
    states: set[tuple[str, str, Json]] = field(default_factory=set)  # tool, path and word of results
    values: set[int] = field(default_factory=set)  # digests of what calls were about, to find sessions of one task
    task: int = 0  # sessions about the same things share a number
    weight: float = 1.0  # one over the number of sessions of its task: ten trials of one task say little more than one


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of recordings."""

    sessions: Sequence[SessionFacts]
    names: LearnedNames
    sources: Sequence[str]  # the tool of each bit but the first
