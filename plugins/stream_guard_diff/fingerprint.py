"""A session as numbers: what it does, how much it says, how it ends, so that sets of sessions can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stream_guard import Json, RecordedTurn, Recording

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
        _log_share(_number(tokens), 4096),
        _log_share(_number(turn.response.get("latency_ms")), 30_000),
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


def _number(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15 or not isfinite(value):
        return 0.0
    return float(value)


def _is_number(word: str) -> bool:
    try:
        float(word.strip(_AROUND_NUMBERS))
    except ValueError:
        return False
    return True
