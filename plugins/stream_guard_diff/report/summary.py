"""The sentences that every report has: how an axis moved, how sure that is, how sessions were paired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stream_guard.reports import number, visible
from stream_guard_diff.comparison import DiffReport
from stream_guard_diff.judging import MeasuredAxis
from stream_guard_diff.statistics import AxisReport

_HOW = {
    "label": "by their task",
    "id": "by their id",
    "content": "by what the user asked",
    "only": "as the only ones",
    "position": "by their position",
}


def change(axis: AxisReport) -> str:
    """Return how an axis moved, in a few words."""
    unit = f" {axis.unit}" if axis.unit else ""
    if axis.pairs == 0 and axis.per_turn is None:
        return "nothing to compare"
    return f"{number(axis.baseline)} → {number(axis.candidate)}{unit}"


def sureness(axis: AxisReport) -> str:
    """Return how sure the number is: the interval, and what to be careful about."""
    if not axis.pairs:
        return ""
    parts = [f"95 %: {number(axis.low)} to {number(axis.high)}" if axis.low != axis.high else f"n={axis.pairs}"]
    if "low_power" in axis.flags:
        parts.append(f"only {axis.pairs} pair{'s' * (axis.pairs != 1)}: may be chance")
    parts += [flag.replace("_", " ") for flag in axis.flags if flag not in ("low_power", "ci_crosses_zero")]
    return ", ".join(parts)


def moved(axes: Sequence[MeasuredAxis]) -> list[MeasuredAxis]:
    """Return the axes on which more than noise was found."""
    return [axis for axis in axes if axis.verdict != "noise"]


def pairing_sentence(report: DiffReport) -> str:
    """Return how sessions were paired, what only the measures count, and what was left out."""
    ways = Counter(session.paired_by for session in report.sessions if session.paired_by)
    parts = [f"{count} pair{'s' * (count != 1)} {_HOW[way]}" for way, count in ways.most_common() if way in _HOW]
    if report.samples:
        noise = report.noise
        parts.append(f"{noise.baseline} against {noise.candidate} sessions as two samples, since nothing pairs them")
    if report.further_trials:
        parts.append(f"{len(report.further_trials)} further trials of those tasks")
    if report.left_out:
        parts.append(f"{len(report.left_out)} left out")
    return f"Sessions: {'; '.join(parts)}." if parts else ""


def drift_sentence(report: DiffReport) -> str:
    """Return the result of the test over all sessions, or nothing where it was not made."""
    if report.drift is None:
        return ""
    test = report.drift.test
    if test.decision != "reject":
        return f"Taken as a whole, {test.n1} and {test.n2} sessions differ no more than chance explains."
    names = ", ".join(
        f"{visible(_DIMENSIONS.get(name, name))} ({'more' if by > 0 else 'less'})" for name, by in report.drift.moved
    )
    return f"Taken as a whole, the sessions behave differently; what moved most: {names}."


_DIMENSIONS = {
    "tool_call_rate": "calls in a turn",
    "distinct_tool_frac": "different tools in a turn",
    "stop_end_turn": "turns that end with an answer",
    "stop_tool_use": "turns that end with a call",
    "stop_other": "turns that end otherwise",
    "output_len_log": "tokens of a response",
    "latency_log": "latency",
    "refusal_flag": "refusals",
    "text_chars_log": "length of answers",
    "arg_keys_total_log": "arguments of calls",
    "error_token_flag": "answers that speak of errors",
    "numeric_token_density": "numbers in answers",
    "turns_log": "turns of a session",
    "failed_result_frac": "failed calls",
}
