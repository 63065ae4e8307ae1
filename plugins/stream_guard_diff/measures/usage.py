"""Measures of usage: how much is written, how many tokens it takes, and how long."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, log
from statistics import fmean

from stream_guard import Json, RecordedTurn
from stream_guard_diff.measures.items import ItemTable, SessionItem
from stream_guard_diff.trails import SessionTrail


def measure_usage(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Add the axes tokens and latency. Where a source counts no tokens, the length of the answers stands for them."""
    for axis, says, sort in (
        ("tokens", "characters in an answer", "characters"),
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
