"""Hotelling's T-squared: whether two sets of sessions behave alike, in all dimensions at once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from math import comb, inf
from typing import Any, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_guard_diff.f_distribution import power, upper_tail

LEVEL: Final = 0.05
ENOUGH_POWER: Final = 0.5
MAX_SPLITS: Final = 13_000  # as many ways to deal out the sessions are tried one by one
_CELLS: Final = 200_000  # so many numbers are dealt out at once
_ROUNDING: Final = 1e-20  # a variance this small beside the values is no variance

Matrix = NDArray[np.float64]


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """What the test says; ``underpowered`` means that there are too few sessions to say that nothing changed."""

    t2: float
    f_stat: float | None
    p_value: float
    df1: int
    df2: int
    n1: int
    n2: int
    shrinkage: float
    power: float | None
    decision: Literal["reject", "fail_to_reject", "underpowered"]
    exact: bool = False


def hotelling(old: Matrix, new: Matrix, *, permutations: int = 0) -> Drift:
    """Test whether two sets of rows have the same mean.

    ``permutations`` of -1 deals the rows out in every possible way (up to 13,000) instead of trusting the
    F distribution; a positive number tries so many random ways, or all where there are no more. Sides that
    are constant and differ have drifted without doubt: the statistic is infinite.
    """
    n1, n2, size = len(old), len(new), old.shape[1]
    if new.shape[1] != size or n1 < 1 or n2 < 1 or n1 + n2 < 3:
        raise ValueError(
            f"two sets of rows of one width are needed, three or more together, not {old.shape} and {new.shape}"
        )
    t2, shrinkage = statistic(old, new)
    df1, df2 = size, n1 + n2 - size - 1
    f_stat = df2 / ((n1 + n2 - 2) * size) * t2 if df2 > 0 else None
    p_value = upper_tail(f_stat, df1, df2) if f_stat is not None else 1.0
    splits = comb(n1 + n2, n1)
    exact = permutations != 0 and splits <= MAX_SPLITS and (permutations < 0 or splits <= permutations)
    if exact:
        p_value = _exact(old, new, t2)
    elif permutations:
        p_value = _sampled(old, new, t2, permutations if permutations > 0 else MAX_SPLITS)
    found = None if f_stat is None else power(t2, df1, df2, LEVEL)
    return Drift(
        t2=t2,
        f_stat=f_stat,
        p_value=p_value,
        df1=df1,
        df2=max(0, df2),
        n1=n1,
        n2=n2,
        shrinkage=shrinkage,
        power=found,
        decision=_decide(p_value, found, dealt_out=permutations != 0),
        exact=exact,
    )


def _decide(
    p_value: float, found: float | None, *, dealt_out: bool
) -> Literal["reject", "fail_to_reject", "underpowered"]:
    if p_value < LEVEL and (dealt_out or found is not None):
        return "reject"
    return "underpowered" if found is None or found < ENOUGH_POWER else "fail_to_reject"


def statistic(old: Matrix, new: Matrix) -> tuple[float, float]:
    """Return T-squared, with the pooled covariance shrunk towards a sphere (OAS), and how far it was shrunk."""
    t2, shrinkage = _statistics(old[np.newaxis], new[np.newaxis])
    return float(t2[0]), float(shrinkage[0])


def _statistics(old: Matrix, new: Matrix) -> tuple[Matrix, Matrix]:
    """Return T-squared and the shrinkage of many pairs of sides at once."""
    (_, n1, size), n2 = old.shape, new.shape[1]
    freedom = n1 + n2 - 2
    middles = old.mean(axis=1), new.mean(axis=1)
    apart = middles[0] - middles[1]
    own = old - middles[0][:, np.newaxis], new - middles[1][:, np.newaxis]
    centred = np.concatenate(own, axis=1)
    pooled = centred.transpose(0, 2, 1) @ centred / freedom
    spread = np.maximum(*((side**2).mean(axis=1).max(axis=1) for side in own))
    largest = np.maximum(np.abs(old).max(axis=(1, 2)), np.abs(new).max(axis=(1, 2)))
    constant = _is_rounding(spread, largest)
    trace, squares = np.trace(pooled, axis1=1, axis2=2), (pooled**2).sum(axis=(1, 2))
    # The oracle approximating shrinkage of Chen, Wiesel, Eldar and Hero (2010).
    below = (freedom + 1 - 2 / size) * (squares - trace**2 / size)
    above = (1 - 2 / size) * squares + trace**2
    shrinkage = np.minimum(1.0, np.divide(above, below, out=np.ones_like(below), where=below > 0))
    shrunk = (1 - shrinkage)[:, None, None] * pooled + (shrinkage * trace / size)[:, None, None] * np.eye(size)
    shrunk[constant] = np.eye(size)
    towards = np.linalg.solve(shrunk, apart[..., np.newaxis])[..., 0]
    t2 = n1 * n2 / (n1 + n2) * (apart * towards).sum(axis=1)
    drifted = np.abs(apart).max(axis=1) > 1e-12 * (1 + np.abs(old).max(axis=(1, 2)))
    return np.where(constant, np.where(drifted, inf, 0.0), t2), np.where(constant, 0.0, shrinkage)


def _is_rounding(spread: Any, largest: Any) -> Any:
    return spread <= _ROUNDING * np.maximum(largest, 1e-150) ** 2


def _exact(old: Matrix, new: Matrix, found: float) -> float:
    places = set(range(len(old) + len(new)))
    chosen = combinations(sorted(places), len(old))
    orders = ([*one, *sorted(places.difference(one))] for one in chosen)
    at_least, total = _count(old, new, found, orders)
    return at_least / total


def _sampled(old: Matrix, new: Matrix, found: float, count: int) -> float:
    drawn = np.random.default_rng(42)
    orders = (drawn.permutation(len(old) + len(new)) for _ in range(count))
    at_least, total = _count(old, new, found, orders)
    return (at_least + 1) / (total + 1)


def _count(old: Matrix, new: Matrix, found: float, orders: Iterator[Any]) -> tuple[int, int]:
    """Count the orders of the rows in which the sides are at least as far apart, and all orders."""
    rows = np.concatenate([old, new])
    at_once = max(1, _CELLS // rows.size)
    at_least = total = 0
    while some := list(islice(orders, at_once)):
        dealt = rows[np.array(some)]
        t2, _ = _statistics(dealt[:, : len(old)], dealt[:, len(old) :])
        at_least += int((t2 >= found * (1 - 1e-9)).sum())
        total += len(some)
    return at_least, total
