"""What reading works on: lists of words, the tokens of a sentence, and what a statement was read as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

# Lists of words, written as people read them.


def word_set(text: str) -> frozenset[str]:
    """Return the words that white space separates."""
    return frozenset(text.split())


# A word or phrase of a sentence with its symbol, and the tools that a pronoun in the next sentence may stand for.


@dataclass(frozen=True, slots=True)
class Token:
    """A word or phrase of a sentence, and what it is for the grammar."""

    symbol: str  # a symbol of the grammar; "" for a filler
    text: str
    start: int
    end: int
    inherited: bool = False  # a pronoun in the place of a tool
    guessed: bool = False  # and the tool was not what the sentence before was about
    described: bool = False  # words in the place of a tool's name

    @property
    def low(self) -> str:
        """The text without case."""
        return self.text.lower().replace("\u2019", "'")


@dataclass(frozen=True, slots=True)
class Antecedent:
    """The tools of the sentence before, which a pronoun may stand for."""

    tools: tuple[str, ...] = ()
    is_topic: bool = False  # the sentence was about the tool, and did not only name it


def antecedent_of(tokens: Sequence[Token]) -> Antecedent:
    """Return what a pronoun in the next sentence may stand for."""
    solid = [token for token in tokens if token.symbol]
    tools = tuple(dict.fromkeys(token.text for token in solid if token.symbol == "TOOL" and not token.described))
    head = solid[:3]
    begins = bool(head) and (head[0].symbol == "TOOL" or [token.symbol for token in head[:2]] == ["BE", "TOOL"])
    return Antecedent(tools, is_topic=begins or [token.symbol for token in head[:2]] == ["YOU", "TOOL"])


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


Shape: TypeAlias = Literal[
    "", "per_turn", "alone", "repeat", "not_after", "first_action", "finish", "acts", "form", "say_after", "say_before",
    "not_empty", "edits", "deletes", "path",
    "argument", "command", "folder", "each_turn", "nothing_after", "answer_after", "say_first", "per_exchange",
    "size", "length", "apart", "filled", "literal", "absent", "words", "has", "lacks", "value", "given", "origin",
    "answered",
]  # fmt: skip
"""Which rule of its kind a reading is, where it is not the plain one."""


@dataclass(frozen=True, slots=True)
class Circumstance:
    """A case that the trace can tell: the user said one of some texts, gave a link, or a tool was called."""

    sort: Literal["said", "link", "called"]
    items: tuple[str, ...] = ()


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
    least: float | None = None  # and one under which it does
    by: str = ""  # who alone may do it, or who must approve
    place: Literal["", "start", "end"] = ""  # where in a response a text must stand
    each: bool = True  # every response, or one of the session's
    window: bool = False  # limited by a span of time, which nothing here can count
    details: tuple[str, ...] = ()  # the condition, as it was written
    left: tuple[str, ...] = ()  # what the same sentence forbids and no rule can check
    shape: Shape = ""
    soon: bool = False  # of what must not follow: it may when the user has spoken
    strict: bool = False  # a bound that is itself too much: "under 5"
    guess: bool = False  # tools were found by a description
    # A rule that holds in a case, or unless the user asks for it: what is forbidden or asked for is the inner reading.
    inner: Reading | None = None
    case: Circumstance | None = None
    asked: bool = False
    words: tuple[str, ...] = ()  # by which a user names the deed
    files: tuple[str, ...] = ()  # it is about calls that name such a file alone: by sorts ("image") or endings ("*.md")
    frame: str = ""  # the production that read it
