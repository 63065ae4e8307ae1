"""Whether a change may merge."""

from __future__ import annotations

from enum import StrEnum

from stream_guard_diff.comparison import DiffReport
from stream_guard_diff.statistics import Level


class FailOn(StrEnum):
    """From which severity on a difference fails the gate."""

    NONE = "none"
    MINOR = "minor"
    MODERATE = "moderate"
    SEVERE = "severe"


def trips(report: DiffReport, fail_on: FailOn) -> bool:
    """Whether the worst of the axes and of the policy's regressions is at or over the gate."""
    return fail_on is not FailOn.NONE and report.level >= Level[fail_on.name]


def reasons(report: DiffReport, fail_on: FailOn) -> list[str]:
    """Return what trips the gate, in words: which axes, which rules."""
    if fail_on is FailOn.NONE:
        return []
    bound = Level[fail_on.name]
    said = [f"{axis.name} is {axis.severity}" for axis in report.axes if Level[axis.severity.upper()] >= bound]
    rules = {alert.rule_id: alert.severity for alert in report.regressions if level_of(alert.severity) >= bound}
    return said + [f"rule {rule} ({severity}) is broken where it was not" for rule, severity in rules.items()]


def level_of(severity: str) -> Level:
    """Return what a finding of this severity means to the gate; critical is never less than error."""
    return {"info": Level.MINOR, "warning": Level.MODERATE}.get(severity, Level.SEVERE)
