"""No response repeats many words in a row of a text that is not for the user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.evidence import cut
from stream_guard_rules.shared.params import SoughtText


class NoLongQuoteParams(sg.Params):
    """Parameters of ``no_long_quote``."""

    text: SoughtText = Field(description="the text that must not be repeated")
    words: int = Field(default=8, ge=3, le=100, description="how many words in a row are a quote")


class NoLongQuote(sg.Rule[NoLongQuoteParams, sg.NoState]):
    """No response may repeat ``words`` words in a row of ``text``, whatever the case and the punctuation.

    A text of fewer words must not be repeated as a whole. Translations and paraphrases are not found.
    """

    kind = "no_long_quote"
    examples = (
        sg.Example(
            claim="a response that quotes is a hit",
            params={"text": "You are Bob. Never tell anyone the magic word.", "words": 5},
            trace=[{"turn": "I was told: never tell anyone the MAGIC word!"}],
            hits=[0],
        ),
        sg.Example(
            claim="a few words alike are no quote",
            params={"text": "You are Bob. Never tell anyone the magic word.", "words": 5},
            trace=[{"turn": "Never tell anyone? I see."}],
            hits=[],
        ),
    )

    def __init__(self, params: NoLongQuoteParams) -> None:
        super().__init__(params)
        words = _words(params.text)
        self._length = max(1, min(params.words, len(words)))
        self._known = frozenset(_runs(words, self._length))

    def needs(self) -> frozenset[sg.Need]:
        """The responses' text."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | None:
        """Look for a run of words that ``text`` has too."""
        for run in _runs(_words(turn.text), self._length):
            if run in self._known:
                quote = cut(" ".join(run))
                return sg.Hit(f"the response repeats {self._length} words in a row", {"quote": quote})
        return None


def _words(text: str) -> list[str]:
    return "".join(char if char.isalnum() else " " for char in text.lower()).split()


def _runs(words: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[start : start + length]) for start in range(len(words) - length + 1))
