"""The sentences that every report has: what changed, how sure that is, and what the gate says."""

from __future__ import annotations

from stream_guard.reports import number, visible
from stream_guard_diff.comparison import DiffReport
from stream_guard_diff.gate import FailOn
from stream_guard_diff.statistics import AxisReport


def verdict(report: DiffReport, fail_on: FailOn) -> str:
    """Return one sentence: whether this may merge, and if not, why."""
    if fail_on is FailOn.NONE:
        return f"The worst change is {report.severity}; no gate was asked for (--fail-on none)."
    if not report.trips(fail_on):
        return f"May merge: the worst change is {report.severity}, and the gate is {fail_on}."
    reasons = report.reasons(fail_on)
    listed = "; ".join(map(visible, reasons[:4])) + (f"; and {len(reasons) - 4} more" if len(reasons) > 4 else "")
    return f"Must not merge: {listed}."


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


def drift_sentence(report: DiffReport) -> str:
    """Return the result of the test over all sessions, or nothing where it was not made."""
    if report.drift is None:
        return ""
    test = report.drift.test
    moved = ", ".join(f"{visible(name)} {'+' if by > 0 else ''}{number(by)} sd" for name, by in report.drift.moved)
    sentence = {
        "reject": "The sessions as a whole behave differently",
        "fail_to_reject": "The sessions as a whole behave alike",
        "underpowered": "Too few sessions to tell whether they behave differently as a whole",
    }[test.decision]
    return f"{sentence} (p = {number(test.p_value)}, {test.n1} against {test.n2} sessions; moved most: {moved})."
