"""Hotelling's T-squared: whether two sets of sessions behave alike, in all dimensions at once."""

from __future__ import annotations

from itertools import combinations
from math import comb, inf
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_guard_diff.f_distribution import power, upper_tail

LEVEL: Final = 0.05
ENOUGH_POWER: Final = 0.5
MAX_SPLITS: Final = 13_000  # as many ways to deal out the sessions are tried one by one
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
    n1, n2, size = len(old), len(new), old.shape[1]
    apart = old.mean(axis=0) - new.mean(axis=0)
    centred = np.concatenate([old - old.mean(axis=0), new - new.mean(axis=0)])
    pooled = centred.T @ centred / (n1 + n2 - 2)
    if is_constant(old, new):
        return (inf if np.abs(apart).max() > 1e-12 * (1 + np.abs(old).max()) else 0.0), 0.0
    freedom = n1 + n2 - 2
    trace, squares = float(np.trace(pooled)), float((pooled**2).sum())
    # The oracle approximating shrinkage of Chen, Wiesel, Eldar and Hero (2010).
    below = (freedom + 1 - 2 / size) * (squares - trace**2 / size)
    shrinkage = 1.0 if below <= 0 else min(1.0, ((1 - 2 / size) * squares + trace**2) / below)
    shrunk = (1 - shrinkage) * pooled + shrinkage * trace / size * np.eye(size)
    return float(n1 * n2 / (n1 + n2) * apart @ np.linalg.solve(shrunk, apart)), shrinkage


def is_constant(old: Matrix, new: Matrix) -> bool:
    """Whether neither side varies, but for rounding."""
    largest = max(float(np.abs(old).max()), float(np.abs(new).max()), 1e-150)
    spread = max(float(old.var(axis=0).max()), float(new.var(axis=0).max()))
    return spread <= _ROUNDING * largest**2


def _exact(old: Matrix, new: Matrix, found: float) -> float:
    rows = np.concatenate([old, new])
    places = set(range(len(rows)))
    at_least = total = 0
    for chosen in combinations(range(len(rows)), len(old)):
        rest = sorted(places.difference(chosen))
        at_least += statistic(rows[list(chosen)], rows[rest])[0] >= found * (1 - 1e-9)
        total += 1
    return at_least / total


def _sampled(old: Matrix, new: Matrix, found: float, count: int) -> float:
    rows = np.concatenate([old, new])
    drawn = np.random.default_rng(42)
    at_least = 0
    for _ in range(count):
        order = drawn.permutation(len(rows))
        at_least += statistic(rows[order[: len(old)]], rows[order[len(old) :]])[0] >= found * (1 - 1e-9)
    return (at_least + 1) / (count + 1)
