"""Reports that machines read: JSON, JUnit, SARIF and GitHub's annotations."""

from __future__ import annotations

from typing import Final

import msgspec

from stream_guard import Place, Policy
from stream_guard.reports import JUnitCase, JUnitSuite, Level, SarifResult, annotation, write_junit, write_sarif
from stream_guard_diff.comparison import DiffReport
from stream_guard_diff.gate import ChangeLevel, FailOn, level_named, level_of_finding
from stream_guard_diff.report.summary import change, verdict

_LEVELS: Final[dict[ChangeLevel, Level]] = {
    ChangeLevel.NONE: "none",
    ChangeLevel.MINOR: "note",
    ChangeLevel.MODERATE: "warning",
    ChangeLevel.SEVERE: "error",
}


def to_json(report: DiffReport, fail_on: FailOn) -> str:
    """Return the whole report as data; an infinite statistic is null, because JSON has no other word for it."""
    data = msgspec.to_builtins(report) | {"fail_on": fail_on.value, "verdict": verdict(report, fail_on)}
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def to_junit(report: DiffReport, fail_on: FailOn) -> str:
    """Return a test case for each axis and each broken rule; what trips the gate is a failure."""
    axes = []
    for axis in report.axes:
        failure = f"{axis.severity}: {change(axis)} {axis.note}".strip()
        axes.append(JUnitCase(axis.name, failure if fail_on.fails(level_named(axis.severity)) else None))
    rules = []
    for alert in report.regressions:
        fails = fail_on.fails(level_of_finding(alert.severity))
        rules.append(JUnitCase(f"{alert.rule_id} in {alert.session_id}", alert.detail if fails else None))
    suites = (JUnitSuite("diff.axes", "diff.axes", axes), JUnitSuite("diff.policy", "diff.policy", rules))
    return write_junit("stream-guard diff", suites)


def to_sarif(report: DiffReport, policy: Policy | None) -> str:
    """Return the regressions, each at the line of its rule in the policy file, and the axes that differ."""
    places = _places(policy)
    results = [
        SarifResult(
            alert.rule_id,
            _LEVELS[level_of_finding(alert.severity)],
            f"{alert.detail} (session {alert.session_id}, turn {alert.index})",
            places.get(alert.rule_id),
            {"alertId": alert.alert_id},
        )
        for alert in report.regressions
    ]
    results += [
        SarifResult(
            f"axis/{axis.name}",
            _LEVELS[level_named(axis.severity)],
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
        lines.append(
            annotation(_LEVELS[level_of_finding(alert.severity)], alert.rule_id, text, places.get(alert.rule_id))
        )
    for axis in report.axes:
        level = level_named(axis.severity)
        if level:
            text = f"{axis.name} is {axis.severity}: {change(axis)} {axis.note}".strip()
            lines.append(annotation(_LEVELS[level], f"diff {axis.name}", text, None))
    return "\n".join(lines)


def _places(policy: Policy | None) -> dict[str, Place]:
    return {rule.id: rule.place for rule in policy.rules} if policy else {}
