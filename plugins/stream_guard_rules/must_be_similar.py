"""Every response is similar to a known text."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from math import sqrt
from typing import Final

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.evidence import cut

# What is no letter and no digit separates words. Scripts without spaces are counted by the character.
_WORDS: Final = re.compile(
    r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u0e00-\u0e7f]|[^\W_\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u0e00-\u0e7f]+"
)


class MustBeSimilarParams(sg.Params):
    """Parameters of ``must_be_similar``."""

    text: str = Field(description="the text that responses are compared with")
    threshold: float = Field(default=0.75, ge=0, le=1, description="how alike they must be, from 0 to 1")
    measure: sg.Measure | None = Field(
        default=None, description="the measure of a plugin, by its name; without it, words are compared"
    )


class MustBeSimilar(sg.Rule[MustBeSimilarParams, sg.NoState]):
    """Every response must be like ``text``.

    Without a plugin's measure, words are compared in any order. A paraphrase counts as different; one "not" more or
    less hardly counts.
    """

    kind = "must_be_similar"
    examples = (
        sg.Example(
            claim="a response of other words is a hit",
            params={"text": "Your order has shipped."},
            trace=[{"turn": "I know nothing of an order."}],
            hits=[0],
        ),
        sg.Example(
            claim="case, order and punctuation do not count",
            params={"text": "Your order has shipped.", "threshold": 1.0},
            trace=[{"turn": "shipped: YOUR order has"}],
            hits=[],
        ),
    )

    def __init__(self, params: MustBeSimilarParams) -> None:
        super().__init__(params)
        self._similarity = params.measure or word_similarity

    def needs(self) -> frozenset[sg.Need]:
        """The responses' text."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | None:
        """Compare the text."""
        alike = self._similarity(self.params.text, turn.text)
        if alike >= self.params.threshold:
            return None
        evidence = {"alike": round(alike, 4), "threshold": self.params.threshold, "text": cut(self.params.text)}
        return sg.Hit(f"the response is {alike:.0%} like the text, not {self.params.threshold:.0%}", evidence)

    def shortfall(self, event: sg.Event, _state: sg.NoState) -> sg.Shortfall | None:
        """How alike the texts were, and how alike they must be."""
        if not isinstance(event, sg.Turn):
            return None
        alike, threshold = self._similarity(self.params.text, event.text), self.params.threshold
        return sg.Shortfall(
            f"the response is {alike:.0%} like the text, and {threshold:.0%} are asked", 1 - (alike - threshold)
        )


def word_similarity(first: str, second: str) -> float:
    """Return how alike the words of two texts are: the cosine of their counts, regardless of case and order."""
    left, right = _count(first), _count(second)
    if left == right:
        return 1.0
    if not left or not right:
        return 0.0
    shared = sum(count * right[word] for word, count in left.items() if word in right)
    norms = sum(count * count for count in left.values()) * sum(count * count for count in right.values())
    return min(1.0, shared / sqrt(norms))


def _count(text: str) -> Counter[str]:
    return Counter(_WORDS.findall(unicodedata.normalize("NFC", text).lower()))
