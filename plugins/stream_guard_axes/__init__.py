"""Axes: the ways in which two recordings may differ."""

from __future__ import annotations

from stream_guard import DiffAxis, hookimpl
from stream_guard_axes.usage import (
    Conformance,
    Cost,
    Latency,
    Reasoning,
    Refusals,
    ResponseText,
    StopReasons,
    Trajectory,
    Turns,
    Verbosity,
)


@hookimpl
def stream_guard_diff_axes() -> list[type[DiffAxis]]:
    """Return the axes of this pack."""
    return [
        Trajectory,
        Turns,
        ResponseText,
        Refusals,
        StopReasons,
        Conformance,
        Verbosity,
        Latency,
        Cost,
        Reasoning,
    ]
