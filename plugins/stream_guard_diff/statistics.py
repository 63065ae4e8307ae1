"""From values to a verdict: differences, bootstrap intervals, and how severe a change is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_guard import AxisValues, DiffAxis
from stream_guard_diff.gate import ChangeLevel, level_named

RESAMPLES: Final = 1000
MANY: Final = 2000  # pairs from which on an interval is so narrow that fewer resamples tell the same
RESAMPLES_OF_MANY: Final = 200
SEED: Final = 42
LOW_POWER: Final = 5  # pairs under which a difference may be chance, and the report says so
NOTHING: Final = 1e-9
_CELLS: Final = 2_000_000  # values of all resamples that are in memory at a time


class AxisReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one axis."""

    name: str
    unit: str
    baseline: float
    candidate: float
    delta: float
    low: float  # of the 95 % interval of the difference
    high: float
    pairs: int
    severity: str
    direction: Literal["same", "better", "worse", "changed"]
    flags: tuple[str, ...] = ()
    per_turn: float | None = None  # the statistic over turns, where the headline is another number
    note: str = ""


def judge(axis: DiffAxis, values: AxisValues) -> AxisReport:
    """Return the axis with its interval, its severity and its flags; a change for the better has none."""
    middle = np.median if axis.statistic == "median" else np.mean
    old, new = np.array(values.baseline), np.array(values.candidate)
    before = float(middle(old)) if len(old) else 0.0
    after = float(middle(new)) if len(new) else 0.0
    low, high = interval(old, new, axis.statistic)
    per_turn = None
    if values.headline is not None:
        # The headline has no resamples; the interval stays that of the turns.
        per_turn, before, after = after - before, 0.0, values.headline
    delta = after - before
    direction = _direction(delta, axis.better)
    level = ChangeLevel.NONE
    if axis.scale != "own" and direction in ("worse", "changed"):
        # Both numbers count: a change in the median of the turns may not show in the whole, nor the reverse.
        level = severity(delta, before, low, high, axis.scale)
    level = max(level, level_named(values.at_least))
    flags = ("low_power",) * (0 < len(old) < LOW_POWER) + ("ci_crosses_zero",) * (low < -NOTHING and high > NOTHING)
    return AxisReport(
        name=axis.name,
        unit=axis.unit,
        baseline=before,
        candidate=after,
        delta=delta,
        low=low,
        high=high,
        pairs=len(old),
        severity=level.word,
        direction=direction,
        flags=flags + values.flags,
        per_turn=per_turn,
        note=values.note,
    )


def interval(
    old: NDArray[np.float64], new: NDArray[np.float64], statistic: Literal["median", "mean"]
) -> tuple[float, float]:
    """Return the 95 % interval of the difference: pairs drawn again and again, always in the same way."""
    count = len(old)
    if not count:
        return 0.0, 0.0
    middle = np.median if statistic == "median" else np.mean
    if (old == old[0]).all() and (new == new[0]).all():
        delta = float(new[0] - old[0])
        return delta, delta
    drawn = np.random.default_rng(SEED)
    deltas: list[NDArray[np.float64]] = []
    left = RESAMPLES if count < MANY else RESAMPLES_OF_MANY
    while left:
        rows = min(left, max(1, _CELLS // count))
        places = drawn.integers(0, count, (rows, count))
        deltas.append(np.asarray(middle(new[places], axis=1) - middle(old[places], axis=1)))
        left -= rows
    low, high = np.percentile(np.concatenate(deltas), [2.5, 97.5])
    return float(low), float(high)


def severity(delta: float, baseline: float, low: float, high: float, scale: Literal["relative", "rate"]) -> ChangeLevel:
    """Return how severe a difference is, by its size and by how sure it is."""
    size = abs(delta)
    if size < NOTHING:
        return ChangeLevel.NONE
    uncertain = low < -NOTHING and high > NOTHING
    if scale == "rate":
        level = _step(size, (0.05, 0.15))
    else:
        if uncertain and size < 0.05 * abs(baseline):
            return ChangeLevel.NONE
        level = ChangeLevel.MINOR if abs(baseline) < NOTHING else _step(size / abs(baseline), (0.10, 0.30))
    return ChangeLevel.MINOR if uncertain and size < high - low else level


def _step(size: float, bounds: Sequence[float]) -> ChangeLevel:
    return ChangeLevel(1 + sum(size >= bound for bound in bounds))


def _direction(delta: float, better: str) -> Literal["same", "better", "worse", "changed"]:
    if abs(delta) < NOTHING:
        return "same"
    if better == "same":
        return "changed"
    return "better" if (delta < 0) == (better == "lower") else "worse"
