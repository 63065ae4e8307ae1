"""How large a change is: the difference of the sides inside each stratum, and its interval."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_guard_diff.measures import SessionItem
from stream_guard_diff.pairing import Stratum

FAR: Final = log(1.7)  # this much more than the other sessions of a task is far more
RESAMPLES: Final = 1_000
ENOUGH_STRATA: Final = 8  # to draw strata; under that, the interval is that of the normal distribution
_SEED: Final = 42

Matrix = NDArray[np.float64]


class Effect(NamedTuple):
    """Before, after, the difference, and its 95 % interval; of an amount, all of them logarithms."""

    before: float
    after: float
    difference: float
    low: float
    high: float


Effects = dict[int, Effect]


def rows_of(stratum: Stratum, first_candidate: int) -> list[int]:
    """Return the rows of a stratum in a table of the baseline's sessions and then the candidate's."""
    return [*stratum.baseline, *(first_candidate + place for place in stratum.candidate)]


def fill_missing(values: Matrix, strata: Sequence[Stratum], first_candidate: int) -> Matrix:
    """Return the values where a missing one is the mean of its stratum, and so speaks for neither side."""
    filled = values.copy()
    for stratum in strata:
        rows = rows_of(stratum, first_candidate)
        part = values[rows]
        missing = np.isnan(part)
        if missing.any():
            known = (~missing).sum(axis=0)
            means = np.nansum(part, axis=0) / np.maximum(known, 1)
            filled[rows] = np.where(missing, means, part)
    return np.nan_to_num(filled)


def far_columns(
    items: Sequence[SessionItem], values: Matrix, strata: Sequence[Stratum], first_candidate: int
) -> tuple[list[SessionItem], Matrix]:
    """Add, for each amount, sessions with far more of it than others with their task; and far fewer, where that counts.

    A few sessions with twice the amount hardly move the mean.
    """
    made, columns = list(items), [values]
    for column, item in enumerate(items):
        if item.scale != "ratio":
            continue
        apart = np.zeros(len(values))
        for stratum in strata:
            rows = rows_of(stratum, first_candidate)
            part = values[rows, column]
            # The middle one of the others: a fault that some of them have as well hardly moves it.
            apart[rows] = part - np.array([np.median(np.delete(part, place)) for place in range(len(part))])
        made.append(item._replace(says=f"has far more {item.says} than others with its task", scale="share"))
        columns.append((apart > FAR)[:, None].astype(np.float64))
        if not item.worse:
            made.append(item._replace(says=f"has far fewer {item.says} than others with its task", scale="share"))
            columns.append((apart < -FAR)[:, None].astype(np.float64))
    return made, np.concatenate(columns, axis=1)


def measure_effects(values: Matrix, strata: Sequence[Stratum], first_candidate: int, columns: Sequence[int]) -> Effects:
    """Return the effects of some columns."""
    if not columns:
        return {}
    part = values[:, list(columns)]
    old = np.array([part[list(stratum.baseline)].mean(axis=0) for stratum in strata])
    new = np.array([part[[first_candidate + place for place in stratum.candidate]].mean(axis=0) for stratum in strata])
    sizes = np.array([(len(stratum.baseline), len(stratum.candidate)) for stratum in strata], dtype=float)
    weights = sizes.prod(axis=1) / sizes.sum(axis=1)
    before, after = np.average(old, axis=0, weights=weights), np.average(new, axis=0, weights=weights)
    if len(strata) >= ENOUGH_STRATA:
        drawn = np.random.default_rng(_SEED).multinomial(len(strata), np.full(len(strata), 1 / len(strata)), RESAMPLES)
        drawn_weights = drawn * weights
        resampled = drawn_weights @ (new - old) / drawn_weights.sum(axis=1, keepdims=True)
        low, high = np.percentile(resampled, [2.5, 97.5], axis=0)
    else:
        spread = 1.96 * _standard_error(part, strata, first_candidate, weights)
        low, high = after - before - spread, after - before + spread
    return {
        column: Effect(*(float(row[place]) for row in (before, after, after - before, low, high)))
        for place, column in enumerate(columns)
    }


def _standard_error(values: Matrix, strata: Sequence[Stratum], first_candidate: int, weights: Matrix) -> Matrix:
    total = np.zeros(values.shape[1])
    for stratum, weight in zip(strata, weights / weights.sum(), strict=True):
        for rows in (list(stratum.baseline), [first_candidate + place for place in stratum.candidate]):
            total += weight**2 * values[rows].var(axis=0) / max(1, len(rows) - 1)
    root: Matrix = np.vectorize(sqrt)(total)
    return root
