"""The F distribution, central and not: as much of it as a test of two means needs."""

from __future__ import annotations

from math import exp, inf, isinf, lgamma, log, log1p
from typing import Final

_ROUNDS: Final = 500
_CLOSE: Final = 1e-15
_TINY: Final = 1e-300


def upper_tail(value: float, numerator: float, denominator: float) -> float:
    """Return the chance of an F at least as large as ``value``."""
    if value <= 0:
        return 1.0
    if isinf(value):
        return 0.0
    return incomplete_beta(denominator / 2, numerator / 2, denominator / (denominator + numerator * value))


def critical(chance: float, numerator: float, denominator: float) -> float:
    """Return the value that an F exceeds with the given chance."""
    low, high = 0.0, 1.0
    while upper_tail(high, numerator, denominator) > chance:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if upper_tail(middle, numerator, denominator) > chance:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def power(noncentrality: float, numerator: float, denominator: float, chance: float = 0.05) -> float:
    """Return how likely a test at the level ``chance`` finds a true difference of this size."""
    if isinf(noncentrality) or noncentrality > 1400:  # beyond, the first weight is no longer a number, and the answer 1
        return 1.0
    bound = critical(chance, numerator, denominator)
    share = numerator * bound / (numerator * bound + denominator)
    half = noncentrality / 2
    missed, weight, total = 0.0, exp(-half), 0.0
    for number in range(10_000):
        missed += weight * incomplete_beta(numerator / 2 + number, denominator / 2, share)
        total += weight
        if number > half and 1 - total < 1e-12:
            break
        weight *= half / (number + 1)
    return min(1.0, max(0.0, 1.0 - missed))


def incomplete_beta(first: float, second: float, value: float) -> float:
    """Return the regularised incomplete beta function, by its continued fraction."""
    if value <= 0:
        return 0.0
    if value >= 1:
        return 1.0
    scale = lgamma(first + second) - lgamma(first) - lgamma(second) + first * log(value) + second * log1p(-value)
    # The fraction converges quickly on this side of the mean only.
    if value < (first + 1) / (first + second + 2):
        return exp(scale) * _fraction(first, second, value) / first
    return 1.0 - exp(scale) * _fraction(second, first, 1 - value) / second


def _fraction(first: float, second: float, value: float) -> float:
    """Evaluate the continued fraction by Lentz's method."""
    upper, lower = 1.0, 1.0 - (first + second) * value / (first + 1)
    lower = 1 / (lower if abs(lower) > _TINY else _TINY)
    result = lower
    for number in range(1, _ROUNDS):
        change = 1.0
        for step in _steps(number, first, second, value):
            lower = 1 + step * lower
            upper = 1 + step / upper
            lower = 1 / (lower if abs(lower) > _TINY else _TINY)
            upper = upper if abs(upper) > _TINY else _TINY
            change = upper * lower
            result *= change
        if abs(change - 1) < _CLOSE:
            return result
    return result if result < inf else 0.0


def _steps(number: int, first: float, second: float, value: float) -> tuple[float, float]:
    twice = first + 2 * number
    even = number * (second - number) * value / ((twice - 1) * twice)
    odd = -(first + number) * (first + second + number) * value / (twice * (twice + 1))
    return even, odd
