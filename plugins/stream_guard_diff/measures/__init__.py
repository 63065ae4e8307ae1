"""Measures: each session by itself, as numbers that do not know which side it is on."""

from __future__ import annotations

from collections.abc import Sequence

from stream_guard_diff.measures.arguments import measure_arguments
from stream_guard_diff.measures.items import ItemTable, SessionItem
from stream_guard_diff.measures.steps import measure_steps
from stream_guard_diff.measures.task_values import measure_task_values
from stream_guard_diff.measures.usage import measure_calls, measure_speech, measure_usage
from stream_guard_diff.trails import SessionTrail

__all__ = ["ItemTable", "SessionItem", "measure_sessions"]


def measure_sessions(trails: Sequence[SessionTrail], tasks: Sequence[int] = ()) -> ItemTable:
    """Measure all sessions of both sides. What is usual is learned from all of them: no side is read.

    ``tasks`` says which sessions have the same task, by a number each.
    """
    table = ItemTable(len(trails), tasks)
    for measure in (
        measure_calls,
        measure_steps,
        measure_arguments,
        measure_task_values,
        measure_speech,
        measure_usage,
    ):
        measure(trails, table)
    return table
