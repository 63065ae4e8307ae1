"""Measures of usage: how much is written, how many tokens it takes, and how long."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from math import isfinite, log
from statistics import fmean, median
from typing import Final

from stream_guard import Json, RecordedTurn
from stream_guard_diff.measures.items import ItemTable, SessionItem
from stream_guard_diff.trails import SessionTrail

ENOUGH: Final = 5  # turns with the same calls, to know what is usual for them


def measure_usage(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Add the axes tokens and latency. Where a source counts no tokens, the length of the answers stands for them."""
    counted = any(_amount(turn, "output_tokens") is not None for trail in trails for turn in trail.recording.turns)
    for axis, says, sort in (
        ("tokens", "characters in an answer", "" if counted else "characters"),
        ("tokens", "output tokens in a response", "output_tokens"),
        ("tokens", "input tokens in a request", "input_tokens"),
        ("tokens", "thinking tokens in a response", "thinking_tokens"),
        ("latency", "milliseconds for a response", "latency_ms"),
    ):
        rows = [
            [value for turn in trail.recording.turns if (value := _amount(turn, sort)) is not None] for trail in trails
        ]
        typical = [fmean(log(1 + value) for value in row) if row else None for row in rows]
        table.add(SessionItem(axis, says, 1, "ratio"), typical)
        whole = f"{says.split(' in ')[0].split(' for ')[0]} in a whole session"
        table.add(SessionItem(axis, whole, 1, "ratio"), [log(1 + sum(row)) if row else None for row in rows])
        if sort == "output_tokens":
            table.add(SessionItem(axis, "output tokens for 1,000 characters", 1, "ratio"), _density(trails))
        if sort != "characters":
            item = SessionItem(axis, f"{says}, beside others with the same calls", 1, "ratio")
            table.add(item, _beside_others(trails, sort))


def _density(trails: Sequence[SessionTrail]) -> list[float | None]:
    """Return how many tokens what is written takes: an agent that thinks longer writes no more, and costs more."""
    rows = [
        [
            log(1 + 1000 * value / (1 + len(turn.text) + sum(len(json.dumps(call.args)) for call in turn.calls)))
            for turn in trail.recording.turns
            if (value := _amount(turn, "output_tokens")) is not None
        ]
        for trail in trails
    ]
    return [median(row) if row else None for row in rows]


def _beside_others(trails: Sequence[SessionTrail], sort: str) -> list[float | None]:
    """Return how far the turns with calls are over what is usual for those tools: that varies least of all."""
    rows = [
        [
            (tuple(call.tool for call in turn.calls), log(1 + value))
            for turn in trail.recording.turns
            if turn.calls and (value := _amount(turn, sort)) is not None
        ]
        for trail in trails
    ]
    by_tools: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        for tools, value in row:
            by_tools[tools].append(value)
    usual = {tools: median(values) for tools, values in by_tools.items() if len(values) >= ENOUGH}
    beside = [[value - usual[tools] for tools, value in row if tools in usual] for row in rows]
    return [median(row) if row else None for row in beside]


def _amount(turn: RecordedTurn, sort: str) -> float | None:
    if sort == "characters":
        return float(len(turn.text)) if turn.text else None
    if sort == "latency_ms":
        return _number(turn.response.get(sort))
    usage = turn.response.get("usage")
    return _number(usage.get(sort)) if isinstance(usage, dict) else None


def _number(value: Json) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15 or not isfinite(value):
        return None
    return float(value)
