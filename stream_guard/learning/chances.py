"""Shares of few sessions: how large the true one may be, and which of many candidates are no accident."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log
from typing import Final

_STEPS: Final = 40


def upper_share(hits: int, of: int, error: float) -> float:
    """Return the share that is hardly passed: with probability ``error``, at most (Clopper and Pearson)."""
    if of == 0 or hits >= of:
        return 1.0
    low, high = hits / of, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _at_most(hits, of, middle) > error:
            low = middle
        else:
            high = middle
    return high


def _at_most(hits: int, of: int, share: float) -> float:
    """Return the probability of no more than so many hits."""
    total = 0.0
    for count in range(hits + 1):
        ways = lgamma(of + 1) - lgamma(count + 1) - lgamma(of - count + 1)
        total += exp(ways + count * log(share) + (of - count) * log(1 - share)) if 0 < share < 1 else 0.0
    return total


def no_accidents(surprises: Sequence[float], tests: int, false_share: float) -> float:
    """Return the surprise from which on at most this share of the candidates is accident (Benjamini and Hochberg)."""
    for rank, found in enumerate(sorted(surprises)):
        below = len(surprises) - rank  # candidates at least as surprising
        if found >= log(tests / (false_share * below)):
            return found
    return float("inf")
