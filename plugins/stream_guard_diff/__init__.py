"""Diff: what changed between two recordings, and whether it may merge."""

from __future__ import annotations

from stream_guard_diff.comparison import Diff, DiffReport, diff
from stream_guard_diff.gate import FailOn, trips

__all__ = ["Diff", "DiffReport", "FailOn", "diff", "trips"]
