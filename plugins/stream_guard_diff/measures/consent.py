"""What a call looks like that nobody agreed to: learned from the sessions themselves, by words of any language.

Of each call right after an exchange with the user a twin is made, which has only what stood before that exchange. Words
tell calls from twins. The more a call looks like a twin, the more likely its question was left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_guard_diff.measures.learning import judge_by_others

_WORD: Final = re.compile(r"[^\W_]+|\?")
_LONGEST: Final = (1_500, 400)  # characters of an answer, from its end, and of a message, from its beginning
_SUPPORT: Final = 4  # calls and twins that must have a word
_MOST_WORDS: Final = 600
_MOST_OF_ONE: Final = 50  # calls of one session: a long one must not take all the time
_MOST_CALLS: Final = 10_000  # beyond, nothing is learned: so many calls show a change without it
_FEWEST: Final = 8  # calls, and twins, from which on anything can be learned
_SHRINK: Final = 60.0  # holds the weights of words down; from 30 to 120 the power is the same
_IN_COMMON: Final = 10.0  # so much that shrinking hardly touches it
_FAULTY: Final = 0.3  # the share of faulty calls for which the evidence is the best one

Matrix = NDArray[np.float64]


class Exchange(NamedTuple):
    """What the agent said, and what the user said to that."""

    answer: str = ""
    message: str = ""

    def words(self) -> set[str]:
        """Return the words of both, marked by who said them."""
        last, first = self.answer[-_LONGEST[0] :].lower(), self.message[: _LONGEST[1]].lower()
        return {f"a {word}" for word in _WORD.findall(last)} | {f"u {word}" for word in _WORD.findall(first)}


class Agreed(NamedTuple):
    """The exchange before a call, and the one before that, where the first could have been left out."""

    exchange: Exchange
    earlier: Exchange | None


def weigh_consent(sessions: Sequence[Sequence[Agreed]]) -> list[float]:
    """Return, for each session, how much its calls look like ones whose exchange was left out; usual ones are near 0.

    A session is judged by what the others teach. Which side it is on is not read.
    """
    owners, is_twin, words = _examples(sessions)
    twins = int(is_twin.sum())
    if min(twins, len(words) - twins) < _FEWEST or len(words) > _MOST_CALLS:
        return [0.0] * len(sessions)
    scores = judge_by_others(_table(words), is_twin, owners, len(sessions), _SHRINK)
    # As in a mixture: a call that surely is fine says little, one that surely is not says much.
    says = np.log(1 - _FAULTY + _FAULTY * np.exp(np.clip(2 * scores, -6.0, 6.0)))
    own = ~is_twin
    calls = np.bincount(owners[own], minlength=len(sessions))
    total = np.bincount(owners[own], weights=says[own], minlength=len(sessions))
    evidence: list[float] = (total / np.maximum(calls, 1)).tolist()
    return evidence


def _examples(sessions: Sequence[Sequence[Agreed]]) -> tuple[NDArray[np.intp], NDArray[np.bool_], list[set[str]]]:
    owners: list[int] = []
    is_twin: list[bool] = []
    words: list[set[str]] = []
    for number, calls in enumerate(sessions):
        for call in calls[:_MOST_OF_ONE]:
            for exchange in call:
                if exchange is not None:
                    owners.append(number)
                    is_twin.append(exchange is not call.exchange)
                    words.append(exchange.words())
    return np.array(owners, dtype=np.intp), np.array(is_twin, dtype=np.bool_), words


def _table(words: Sequence[set[str]]) -> Matrix:
    """Return a row for each example, a column for each word that enough have, and one for what all have in common."""
    support = Counter(word for found in words for word in found)
    known = sorted((word for word in support if support[word] >= _SUPPORT), key=lambda word: (-support[word], word))
    columns = {word: column for column, word in enumerate(known[:_MOST_WORDS])}
    table = np.zeros((len(words), len(columns) + 1))
    table[:, -1] = _IN_COMMON
    for row, found in enumerate(words):
        table[row, [columns[word] for word in found if word in columns]] = 1.0
    return table
