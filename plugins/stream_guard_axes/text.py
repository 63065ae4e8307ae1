"""The axis of wording: how many words of the responses stayed the same."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from math import log, sqrt
from typing import ClassVar, Literal

from stream_guard import AxisValues, Sides

# What is no letter and no digit separates words; an underscore does too.
_WORDS = re.compile(r"[^\W_]+")


class ResponseText:
    """The cosine of the words of two responses, rare words counting more; 1 for the same words."""

    name: ClassVar[str] = "text"
    unit: ClassVar[str] = ""
    statistic: ClassVar[Literal["median", "mean"]] = "median"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "relative"
    better: ClassVar[Literal["lower", "higher", "same"]] = "higher"

    def measure(self, sides: Sides) -> AxisValues:
        """Weigh each word once for all pairs; a pair costs what its own words cost."""
        documents = [(_count(old.text), _count(new.text)) for old, new in sides.pairs]
        frequency: Counter[str] = Counter()
        for pair in documents:
            for words in pair:
                frequency.update(words.keys())
        total = 2 * len(documents)
        weights = {word: log((total + 1) / (count + 1)) + 1 for word, count in frequency.items()}
        return AxisValues(
            baseline=(1.0,) * len(documents),
            candidate=tuple(_cosine(old, new, weights) for old, new in documents),
        )


def _count(text: str) -> Counter[str]:
    return Counter(_WORDS.findall(unicodedata.normalize("NFC", text).lower()))


def _cosine(old: Counter[str], new: Counter[str], weights: dict[str, float]) -> float:
    if old == new:
        return 1.0
    if not old or not new:
        return 0.0
    left, right = _weigh(old, weights), _weigh(new, weights)
    shared = sum(weight * right[word] for word, weight in left.items() if word in right)
    norms = sum(weight * weight for weight in left.values()) * sum(weight * weight for weight in right.values())
    return min(1.0, shared / sqrt(norms))


def _weigh(words: Counter[str], weights: dict[str, float]) -> dict[str, float]:
    return {word: (1 + log(count)) * weights[word] for word, count in words.items()}
