"""A sentence prepared for the readers: quotes masked, tools found, patterns searched in linear time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import re2

from stream_guard_compliance.reading.vocabulary import Mention, Vocabulary, looks_like_name

_QUOTED: Final = re.compile(
    r"""\u201c([^\u201d\n]{1,300})\u201d|"([^"\n]{1,300})"|(?<!\w)'([^'\n]{2,200})'(?!\w)|\u2018([^\u2019\n]{2,200})\u2019"""
)
_CODE: Final = re.compile(r"`([^`\n]{1,200})`")
_NAME: Final = re.compile(r"[A-Za-z][\w.-]{0,99}")

# Double negations: what they say is what must be done.
_MUST: Final = (
    r"(?i)\b(?:do not|don.t|never|must not|should not|shouldn.t|cannot) (?:forget|fail|neglect|omit|skip) to\b"
    r"|\b(?:be sure|make sure|remember|take care|ensure you)(?: that you| to)\b"
)

_COUNTED: Final = "zero one two three four five six seven eight nine ten eleven twelve"
NUMBERS: Final = {word: number for number, word in enumerate(_COUNTED.split())} | {
    "once": 1,
    "twice": 2,
    "thrice": 3,
    "a single": 1,
    "a": 1,
}
NUMBER: Final = r"(\d{1,9}|zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a single)"

NEGATION: Final = (
    r"\b(?:never|do not|don.t|must not|mustn.t|should not|shouldn.t|shall not|may not|cannot|can not|can.t"
    r"|avoid|refrain"
    r"|under no circumstances?|not allowed|not permitted|prohibited|forbidden|off.limits|disallowed|no longer|not to"
    r"|at no time|not be|is banned|are banned|by no means)\b"
)
MODAL: Final = (
    r"\b(?:must|shall|should|has to|have to|needs? to|are required|is required|required to|always|ensure|make sure"
    r"|requires?|needs?|only|never|cannot|can.t|not)\b"
)
CONDITION: Final = (
    r"\b(?:if|when|whenever|unless|until|in case|in the event|as soon as|as long as|while|where|otherwise|except"
    r"|depending|provided that|once)\b"
)
PERSON: Final = (
    r"(?:the |an? |your |their |any |our )?(?:end.?users?|users?|customers?|clients?|callers?|humans?|persons?|owner)"
)


@cache
def _compiled(pattern: str) -> Any:
    return re2.compile(pattern)


@dataclass(slots=True)
class Clause:
    """A prepared sentence: ``low`` is in lower case, without quotes, and as long as ``text``."""

    text: str
    low: str
    quotes: tuple[str, ...]
    codes: tuple[str, ...]
    mentions: list[Mention]
    vocabulary: Vocabulary
    heading: str = ""
    inherited: bool = False  # the tools are those of the sentence before ("Never call it.")
    tools: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.tools = tuple(mention.name for mention in self.mentions)

    def has(self, pattern: str) -> bool:
        """Whether the pattern occurs outside quotes, in time linear in the sentence."""
        return _compiled(pattern).search(self.low) is not None

    def find(self, pattern: str) -> Any:
        """Return the first match outside quotes, or None."""
        return _compiled(pattern).search(self.low)

    def where(self, pattern: str) -> int:
        """Return where the pattern begins, or -1."""
        match = self.find(pattern)
        return -1 if match is None else int(match.start())

    def negated(self) -> bool:
        """Whether it forbids something."""
        return self.has(NEGATION)

    def conditional(self) -> bool:
        """Whether it holds in some cases only."""
        return self.has(CONDITION)

    def tools_between(self, start: int, end: int) -> tuple[str, ...]:
        """The tools that are named in a piece of the sentence."""
        return tuple(mention.name for mention in self.mentions if start <= mention.start < end)


def read_number(text: str) -> int:
    """Return the number that digits or a word stand for."""
    return int(text) if text.isdigit() else NUMBERS[text]


def make_clause(text: str, vocabulary: Vocabulary, heading: str = "", before: tuple[str, ...] = ()) -> Clause:
    """Return the sentence ready for reading; ``before`` are the tools of the sentence before it."""
    text = str(_compiled(_MUST).sub("always", text))
    masked, quotes = _mask(text, vocabulary)
    codes = tuple(match.group(1) for match in _CODE.finditer(masked))
    mentions = vocabulary.mentions(masked)
    low = _small(masked.replace("`", " "))
    clause = Clause(text, low, quotes, codes, mentions, vocabulary, heading)
    if (
        before
        and not mentions
        and clause.has(r"\b(?:it|them|this tool|that tool|these tools|those tools|do(?:ing)? (?:so|this|that))\b")
    ):
        place = clause.where(r"\b(?:it|them|this tool|that tool|these tools|those tools|so|this|that)\b")
        clause = Clause(
            text,
            low,
            quotes,
            codes,
            [Mention(name, place, place) for name in before],
            vocabulary,
            heading,
            inherited=True,
        )
    return clause


def _small(text: str) -> str:
    """Return the text small and no longer: a few capitals become two letters, and offsets must hold."""
    return "".join(small if len(small := char.lower()) == 1 else char for char in text.replace("\u2019", "'"))


def _mask(text: str, vocabulary: Vocabulary) -> tuple[str, tuple[str, ...]]:
    """Blank out what is quoted, unless the quote is the name of a tool and nothing else."""
    quotes: list[str] = []

    def blank(match: re.Match[str]) -> str:
        inner = next(group for group in match.groups() if group is not None)
        if _NAME.fullmatch(inner) and (vocabulary.knows(inner) or looks_like_name(inner)):
            return f" {inner} "
        quotes.append(inner)
        return " " * len(match.group())

    return _QUOTED.sub(blank, text), tuple(quotes)
