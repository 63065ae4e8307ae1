"""Axes about what a turn uses: tokens, time, money. Less is better and never fails a gate."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import ClassVar, Literal

from stream_guard import AxisValues, Json, RecordedTurn, Sides

_DATE = re.compile(r"[-@](\d{8}|\d{4}-\d\d-\d\d)$")


class Verbosity:
    """The tokens of a response."""

    name: ClassVar[str] = "verbosity"
    unit: ClassVar[str] = "tokens"
    statistic: ClassVar[Literal["median", "mean"]] = "median"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "relative"
    better: ClassVar[Literal["lower", "higher", "same"]] = "lower"

    def measure(self, sides: Sides) -> AxisValues:
        """Compare the turns where both sides have the number."""
        return _both(sides, lambda turn: _tokens(turn, "output_tokens"))


class Latency:
    """How long a response took."""

    name: ClassVar[str] = "latency"
    unit: ClassVar[str] = "ms"
    statistic: ClassVar[Literal["median", "mean"]] = "median"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "relative"
    better: ClassVar[Literal["lower", "higher", "same"]] = "lower"

    def measure(self, sides: Sides) -> AxisValues:
        """Compare the turns where both sides have the number."""
        return _both(sides, lambda turn: _number(turn.response.get("latency_ms")))


class Reasoning:
    """Thinking: its tokens, and its blocks where tokens are not counted."""

    name: ClassVar[str] = "reasoning"
    unit: ClassVar[str] = "tokens"
    statistic: ClassVar[Literal["median", "mean"]] = "median"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "relative"
    better: ClassVar[Literal["lower", "higher", "same"]] = "lower"

    def measure(self, sides: Sides) -> AxisValues:
        """Compare; a turn without a record of thinking counts as none."""
        return _both(sides, _thinking)


class Cost:
    """What a turn costs, by a table of prices; without a price for a model, its turns are left out and flagged."""

    name: ClassVar[str] = "cost"
    unit: ClassVar[str] = "USD"
    statistic: ClassVar[Literal["median", "mean"]] = "median"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "relative"
    better: ClassVar[Literal["lower", "higher", "same"]] = "lower"

    def measure(self, sides: Sides) -> AxisValues:
        """Compare the turns whose models have prices."""
        values = _both(sides, lambda turn: _cost(turn, sides.prices))
        if sides.pairs and len(values.baseline) < len(sides.pairs):
            return AxisValues(baseline=values.baseline, candidate=values.candidate, flags=("no_pricing",))
        return values


def _both(sides: Sides, read: Callable[[RecordedTurn], float | None]) -> AxisValues:
    pairs = [(read(old), read(new)) for old, new in sides.pairs]
    known = [(old, new) for old, new in pairs if old is not None and new is not None]
    return AxisValues(baseline=tuple(old for old, _ in known), candidate=tuple(new for _, new in known))


def _number(value: Json) -> float | None:
    """Return a measurement, or None where the recording has no sensible number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15 or not isfinite(value):
        return None
    return float(value)


def _tokens(turn: RecordedTurn, sort: str) -> float | None:
    usage = turn.response.get("usage")
    return _number(usage.get(sort)) if isinstance(usage, dict) else None


def _thinking(turn: RecordedTurn) -> float:
    content = turn.response.get("content")
    blocks = content if isinstance(content, list) else ()
    counted = len([1 for block in blocks if isinstance(block, dict) and block.get("type") == "thinking"])
    return (_tokens(turn, "thinking_tokens") or 0.0) + counted


def _cost(turn: RecordedTurn, prices: Mapping[str, Mapping[str, float]]) -> float | None:
    model = str(turn.response.get("model") or turn.request.get("model") or "")
    price = prices.get(model) or prices.get(_DATE.sub("", model))
    if price is None:
        return None
    dollars_a_million = sum((_tokens(turn, f"{sort}_tokens") or 0.0) * dollars for sort, dollars in price.items())
    return float(dollars_a_million) / 1e6
