"""Sentences about changes: shares of sessions, ratios, intervals, chance, and what an axis could have seen."""

from __future__ import annotations

from stream_guard.reports import visible
from stream_guard_diff.judging import ItemChange, MeasuredAxis


def change_words(change: ItemChange) -> str:
    """Return what changed, with both numbers."""
    says = visible(change.says)
    if change.scale == "ratio":
        return f"{says}: {_amount(change.before)} → {_amount(change.after)} ({share_words(change, change.effect)})"
    among = f" that {visible(change.among)}" if change.among else ""
    return f"{says} in {change.after:.0%} of the sessions{among} (before: {change.before:.0%})"


def share_words(change: ItemChange, value: float) -> str:
    """Return an effect, or an end of its interval, with its sign and its unit."""
    if change.scale == "ratio":
        return f"{value:+.0%}"
    return f"{value * 100:+.0f} points"


def interval_words(change: ItemChange) -> str:
    """Return the interval of an effect."""
    return f"{share_words(change, change.low)} to {share_words(change, change.high)}"


def chance_words(chance: float) -> str:
    """Return a probability as people say it: how often chance alone would show as much."""
    if chance <= 0.001:
        return "by chance less than once in 1,000 comparisons"
    if chance >= 0.5:
        return "as chance has it"
    return f"by chance about once in {round(1 / chance):,} comparisons"


def power_words(axis: MeasuredAxis, candidate: int) -> str:
    """Return what an axis could have seen with these sessions, and how many would be needed to see more."""
    parts = []
    if axis.new_in is not None:
        parts.append(f"something new in {axis.new_in} of {candidate} sessions")
    if axis.detectable is not None and axis.detectable < 1:
        parts.append(f"a change of {max(1.0, axis.detectable * 100):.0f} points in something usual")
    seen = " or ".join(parts) if parts else "nothing: these sessions are too few"
    if axis.sessions_needed is not None and axis.sessions_needed > candidate:
        return f"{seen}; for 10 points about {axis.sessions_needed:,} sessions a side"
    return seen


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
