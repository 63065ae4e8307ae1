"""What is learned from: the facts of each session, in a form that is small enough to keep for all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeAlias

from stream_guard.judge.model import Json
from stream_guard.judge.patterns import ToolPattern, main_reading
from stream_guard.redaction import redact

# The names under which tools are learned: by their words, so that other spellings give the same rules.


# A name an agent made up must not become a pattern in a policy, nor a hundred lines of it.
_PLAIN: Final = re.compile(r"[\w.:/-]{1,128}")


def is_plain_name(name: str) -> bool:
    """Whether a policy may name a tool or an argument as it is: agents invent names that look like patterns."""
    return _PLAIN.fullmatch(name) is not None


class LearnedNames:
    """Gives every tool one name. Two tools of one session that only differ in their server keep their own names."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}  # by name: how it was spelled first
        self._read: dict[str, str] = {}  # by spelling: its name
        self._ambiguous: set[str] = set()

    def name(self, spelling: str, in_session: dict[str, str]) -> str:
        """Return the name of a tool; empty for one that no policy may name. ``in_session`` is spellings by name."""
        if spelling not in self._read:
            self._read[spelling] = (main_reading(spelling) or spelling) if is_plain_name(spelling) else ""
        name = self._read[spelling]
        if not name:
            return ""
        if in_session.setdefault(name, spelling) != spelling:
            self._ambiguous.add(name)
            self._first.setdefault(spelling, spelling)
            return spelling
        self._first.setdefault(name, spelling)
        return name

    def pattern(self, name: str) -> str:
        """Return how a policy writes a tool or a class: by its words, or as spelled where the words mean two tools."""
        if name in (ANY, ACTS):
            return name
        by_words = name not in self._ambiguous and main_reading(self._first.get(name, name)) == name
        return f"~{name}" if by_words else self._first.get(name, name)


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


# Values in JSON: where they stand, and whether a text or an earlier result said them.


MOST_PATHS: Final = 40  # of one object
_DEEPEST: Final = 3
_MOST_TEXT: Final = 20_000  # characters of one text that are looked at
_KEY: Final = re.compile(r"(?!tool$)[A-Za-z_][\w-]{0,63}")
_SPLIT: Final = {ord(char): " " for char in "\"'<>(){}[],;`|"}
_DROPPED: Final = {code: None for code in range(33, 128) if not chr(code).isalnum() and code not in _SPLIT}
_TO_PIECES: Final = {**_SPLIT, **_DROPPED}


def is_plain_key(key: str) -> bool:
    """Whether a policy may name a key of an object: an agent can write keys that a policy reads as something else."""
    return _KEY.fullmatch(key) is not None


def is_secret(path: str, value: Json) -> bool:
    """Whether a value must not come into a policy: it is a secret by its look or by its name."""
    named = {path.rpartition(".")[2]: value}
    return bool(redact(named) != named)


def scalars(value: Json) -> dict[str, Json]:
    """Return the texts, numbers and booleans of an object by dotted path; lists are left out."""
    found: dict[str, Json] = {}
    waiting: list[tuple[str, Json, int]] = [("", value, 0)]
    for prefix, item, depth in waiting:
        if not isinstance(item, dict):
            continue
        for key, entry in item.items():
            if not is_plain_key(key):
                continue
            path = f"{prefix}{key}"
            if isinstance(entry, dict) and depth + 1 < _DEEPEST:
                waiting.append((f"{path}.", entry, depth + 1))
            elif isinstance(entry, str | int | float) and len(found) < MOST_PATHS:
                found[path] = entry
    return found


def parsed(output: Json) -> Json:
    """Return the output of a tool, read where it is JSON in a text."""
    if not isinstance(output, str) or output.lstrip()[:1] not in ("{", "["):
        return output
    try:
        return json.loads(output)
    except (ValueError, RecursionError):
        return output


def texts_in(value: Json) -> Iterator[str]:
    """Yield every text and number in a JSON value; the keys of objects are left out."""
    waiting = [value]
    for item in waiting:  # grows while it is walked: a loop, because recursion has a limit
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield f"{item:.12g}" if abs(item) < 10**15 else ""


def pieces(text: str) -> list[str]:
    """Return the letters and digits of each piece of a text; blanks, quotes, brackets and commas separate pieces."""
    return text[:_MOST_TEXT].lower().translate(_TO_PIECES).split()


class Said:
    """Which sources of a session said which pieces of text so far, each source a bit."""

    __slots__ = ("_by_piece",)

    def __init__(self) -> None:
        self._by_piece: dict[str, int] = {}

    def add(self, value: Json, source: int) -> None:
        """Take note of what a source said."""
        known = self._by_piece
        for text in texts_in(value):
            for piece in pieces(text):
                known[piece] = known.get(piece, 0) | source

    def sources(self, text: str) -> int:
        """Return the sources that said every piece of a text."""
        known: Mapping[str, int] = self._by_piece
        common = -1
        for piece in pieces(text):
            # A whole number is said by 20.00 too, whose dot is dropped like that of a sentence.
            common &= known.get(piece, 0) | (known.get(f"{piece}00", 0) if piece.isdigit() else 0)
        return max(common, 0)


# Classes of tools that rules are learned for: what many tools have in common needs fewer sessions to be learned.


ANY: Final = "*"
ACTS: Final = "@act"  # every tool that does more than look, also those that are not known yet
_ACTING: Final = ToolPattern([ACTS])
_GRAVE: Final = ToolPattern(["@write", "@money", "@egress", "@delete"])
_WORDS: Final = {ANY: "any tool", ACTS: "what acts"}


@lru_cache(maxsize=4096)
def acts(tool: str) -> bool:
    """Whether a tool does more than look."""
    return _ACTING.matches(tool)


@lru_cache(maxsize=4096)
def is_grave(tool: str) -> bool:
    """Whether a tool changes, sends or pays something; a class of such tools is grave too."""
    return tool == ACTS or _GRAVE.matches(tool)


def in_words(tool: str) -> str:
    """Return a tool or a class as a sentence names it."""
    return _WORDS.get(tool, tool)


def in_id(tool: str) -> str:
    """Return a tool or a class as it stands in the id of a rule."""
    return {ANY: "any", ACTS: "acts"}.get(tool, tool)
