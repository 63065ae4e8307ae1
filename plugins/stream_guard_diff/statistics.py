"""Statistics: verdicts on differences, the F distribution, and a test of whether sets of sessions behave alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from math import comb, exp, inf, isinf, lgamma, log, log1p
from typing import Any, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_guard import AxisValues, DiffAxis, RecordedTurn, Recording
from stream_guard_diff.gate import ChangeLevel, level_named
from stream_guard_diff.measures.usage import read_number

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


# The F distribution, central and not: as much of it as a test of two means needs.

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


# Hotelling's T-squared: whether two sets of sessions behave alike, in all dimensions at once.

LEVEL: Final = 0.05
ENOUGH_POWER: Final = 0.5
MAX_SPLITS: Final = 13_000  # as many ways to deal out the sessions are tried one by one
_DEALT_CELLS: Final = 200_000  # so many numbers are dealt out at once
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
    at_once = max(1, _DEALT_CELLS // rows.size)
    at_least = total = 0
    while some := list(islice(orders, at_once)):
        dealt = rows[np.array(some)]
        t2, _ = _statistics(dealt[:, : len(old)], dealt[:, len(old) :])
        at_least += int((t2 >= found * (1 - 1e-9)).sum())
        total += len(some)
    return at_least, total


# A session as numbers: what it does, how much it says, how it ends, so that sets of sessions can be compared.

TURN_DIMENSIONS: Final = (
    "tool_call_rate",
    "distinct_tool_frac",
    "stop_end_turn",
    "stop_tool_use",
    "stop_other",
    "output_len_log",
    "latency_log",
    "refusal_flag",
    "text_chars_log",
    "arg_keys_total_log",
    "error_token_flag",
    "numeric_token_density",
)
SESSION_DIMENSIONS: Final = ("turns_log", "failed_result_frac")
MAX_TOOLS: Final = 4  # tools with a dimension of their own: each one costs sessions to be sure of anything

_TROUBLE: Final = (
    "error",
    "exception",
    "failed",
    "failure",
    "cannot",
    "unable",
    "not found",
    "invalid",
    "timed out",
)
_AROUND_NUMBERS: Final = ".,;:!?()[]\"'$%"
_NEITHER: Final = ("", "end_turn", "tool_use", "content_filter")


def turn_fingerprint(turn: RecordedTurn) -> list[float]:
    """Return the twelve numbers of a turn, each from 0 to 1, in the order of ``TURN_DIMENSIONS``."""
    usage = turn.response.get("usage")
    tokens = usage.get("output_tokens") if isinstance(usage, dict) else None
    text, words = turn.text.lower(), turn.text.split()
    calls = len(turn.calls)
    names = sum(len(call.args) for call in turn.calls if isinstance(call.args, dict))
    return [
        _log_share(calls, 8),
        len({call.tool for call in turn.calls}) / calls if calls else 0.0,
        float(turn.stop_reason == "end_turn"),
        float(turn.stop_reason == "tool_use"),
        float(turn.stop_reason not in _NEITHER),
        _log_share(read_number(tokens) or 0.0, 4096),
        _log_share(read_number(turn.response.get("latency_ms")) or 0.0, 30_000),
        float(turn.stop_reason == "content_filter"),
        _log_share(len(turn.text), 16_384),
        _log_share(names, 32),
        float(any(word in text for word in _TROUBLE)),
        sum(map(_is_number, words)) / len(words) if words else 0.0,
    ]


def session_fingerprints(sides: Sequence[Sequence[Recording]]) -> tuple[tuple[str, ...], list[NDArray[np.float64]]]:
    """Return the names of the dimensions and, for each side, one row a session.

    A row is the mean over the session's turns, its length, the share of tool results that failed, and how
    often it called each of the tools that are called most.
    """
    counts: dict[str, int] = {}
    for recordings in sides:
        for recording in recordings:
            for turn in recording.turns:
                for call in turn.calls:
                    counts[call.tool] = counts.get(call.tool, 0) + 1
    tools = sorted(counts, key=lambda tool: (-counts[tool], tool))[:MAX_TOOLS]
    names = (*TURN_DIMENSIONS, *SESSION_DIMENSIONS, *(f"calls:{tool}" for tool in tools))
    rows = [np.array([_row(recording, tools) for recording in side]).reshape(len(side), len(names)) for side in sides]
    return names, rows


def _row(recording: Recording, tools: Sequence[str]) -> list[float]:
    turns = [turn_fingerprint(turn) for turn in recording.turns]
    means = [sum(column) / len(turns) for column in zip(*turns, strict=True)] if turns else [0.0] * len(TURN_DIMENSIONS)
    called = [call.tool for turn in recording.turns for call in turn.calls]
    failed = recording.failed_results / recording.results if recording.results else 0.0
    return [*means, _log_share(len(turns), 1000), failed, *(_log_share(called.count(tool), 100) for tool in tools)]


def _log_share(value: float, scale: float) -> float:
    return min(1.0, log(1 + value) / log(1 + scale))


def _is_number(word: str) -> bool:
    try:
        float(word.strip(_AROUND_NUMBERS))
    except ValueError:
        return False
    return True
