"""Reports that machines read: JSON, JUnit, SARIF and GitHub's annotations."""

from __future__ import annotations

from typing import Final

import msgspec

from stream_guard import Place, Policy
from stream_guard.reports import JUnitCase, JUnitSuite, Level, SarifResult, annotation, write_junit, write_sarif
from stream_guard_diff.comparison import DiffReport
from stream_guard_diff.gate import FailOn, level_of
from stream_guard_diff.report_summary import change, verdict
from stream_guard_diff.statistics import Level as Severity

_LEVELS: Final[dict[Severity, Level]] = {
    Severity.NONE: "none",
    Severity.MINOR: "note",
    Severity.MODERATE: "warning",
    Severity.SEVERE: "error",
}


def to_json(report: DiffReport, fail_on: FailOn) -> str:
    """Return the whole report as data; an infinite statistic is null, because JSON has no other word for it."""
    data = msgspec.to_builtins(report) | {"fail_on": fail_on.value, "verdict": verdict(report, fail_on)}
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def to_junit(report: DiffReport, fail_on: FailOn) -> str:
    """Return a test case for each axis and each broken rule; what trips the gate is a failure."""
    bound = Severity.SEVERE + 1 if fail_on is FailOn.NONE else int(Severity[fail_on.name])
    axes = [
        JUnitCase(
            axis.name,
            f"{axis.severity}: {change(axis)} {axis.note}".strip()
            if Severity[axis.severity.upper()] >= bound
            else None,
        )
        for axis in report.axes
    ]
    rules = [
        JUnitCase(f"{alert.rule_id} in {alert.session_id}", alert.detail if level_of(alert.severity) >= bound else None)
        for alert in report.regressions
    ]
    suites = (JUnitSuite("diff.axes", "diff.axes", axes), JUnitSuite("diff.policy", "diff.policy", rules))
    return write_junit("stream-guard diff", suites)


def to_sarif(report: DiffReport, policy: Policy | None) -> str:
    """Return the regressions, each at the line of its rule in the policy file, and the axes that differ."""
    places = _places(policy)
    results = [
        SarifResult(
            alert.rule_id,
            _LEVELS[level_of(alert.severity)],
            f"{alert.detail} (session {alert.session_id}, turn {alert.index})",
            places.get(alert.rule_id),
            {"alertId": alert.alert_id},
        )
        for alert in report.regressions
    ]
    results += [
        SarifResult(
            f"axis/{axis.name}",
            _LEVELS[Severity[axis.severity.upper()]],
            f"{axis.name}: {change(axis)} {axis.note}".strip(),
        )
        for axis in report.axes
        if axis.severity != "none"
    ]
    return write_sarif(results, sorted({result.rule_id for result in results if result.rule_id}))


def to_github(report: DiffReport, policy: Policy | None) -> str:
    """Return a line for each regression and each axis that differs, as GitHub shows them beside the code."""
    places = _places(policy)
    lines = []
    for alert in report.regressions:
        text = f"{alert.detail} (session {alert.session_id}, turn {alert.index})"
        lines.append(annotation(_LEVELS[level_of(alert.severity)], alert.rule_id, text, places.get(alert.rule_id)))
    for axis in report.axes:
        severity = Severity[axis.severity.upper()]
        if severity:
            text = f"{axis.name} is {axis.severity}: {change(axis)} {axis.note}".strip()
            lines.append(annotation(_LEVELS[severity], f"diff {axis.name}", text, None))
    return "\n".join(lines)


def _places(policy: Policy | None) -> dict[str, Place]:
    return {rule.id: rule.place for rule in policy.rules} if policy else {}
