"""A word or phrase of a sentence with its symbol, and the tools that a pronoun in the next sentence may stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
