"""Reports that machines read: JSON, JUnit, SARIF and GitHub's annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from stream_guard import Alert, Place, Policy
from stream_guard.reports import (
    JUnitCase,
    JUnitSuite,
    Level,
    SarifResult,
    annotation,
    visible,
    write_junit,
    write_sarif,
)
from stream_guard_diff.change_sentences import change_words
from stream_guard_diff.comparison import DiffReport
from stream_guard_diff.deciding import GateAnswer
from stream_guard_diff.gate import ChangeLevel, level_named, level_of_finding
from stream_guard_diff.judging import MeasuredAxis
from stream_guard_diff.report.summary import change, moved

_LEVELS: Final[dict[ChangeLevel, Level]] = {
    ChangeLevel.NONE: "none",
    ChangeLevel.MINOR: "note",
    ChangeLevel.MODERATE: "warning",
    ChangeLevel.SEVERE: "error",
}


def to_json(report: DiffReport, answer: GateAnswer) -> str:
    """Return the whole report as data; an infinite statistic is null, because JSON has no other word for it."""
    data = msgspec.to_builtins(report) | {"answer": msgspec.to_builtins(answer), "verdict": answer.verdict}
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def to_junit(report: DiffReport, answer: GateAnswer) -> str:
    """Return a test case for each axis and each broken rule; what trips the gate is a failure."""
    if answer.by == "noise":
        cases = [JUnitCase(axis.title, _words(axis) if axis.blocks else None) for axis in report.noise.axes]
        return write_junit("stream-guard diff", (JUnitSuite("diff.measured", "diff.measured", cases),))
    reasons = set(answer.reasons)
    axes = []
    for axis in report.axes:
        failure = f"{axis.severity}: {change(axis)} {axis.note}".strip()
        axes.append(JUnitCase(axis.name, failure if f"{axis.name} is {axis.severity}" in reasons else None))
    rules = []
    for alert in report.regressions:
        fails = answer.trips and any(f"rule {visible(alert.rule_id)} " in reason for reason in reasons)
        rules.append(JUnitCase(f"{alert.rule_id} in {alert.session_id}", alert.detail if fails else None))
    suites = (JUnitSuite("diff.axes", "diff.axes", axes), JUnitSuite("diff.policy", "diff.policy", rules))
    return write_junit("stream-guard diff", suites)


def _words(axis: MeasuredAxis) -> str:
    return "; ".join(map(change_words, axis.changes))


def _level_of_alert(alert: Alert, report: DiffReport, answer: GateAnswer) -> Level:
    """A finding weighs what its severity says; where noise is measured, only a rule that blocks is an error."""
    if answer.by != "noise":
        return _LEVELS[level_of_finding(alert.severity)]
    said = f"breaks the rule {alert.rule_id}"
    blocking = {change.says for axis in report.noise.policy if axis.blocks for change in axis.changes}
    return "error" if said in blocking else "note"


def _measured_levels(report: DiffReport, answer: GateAnswer) -> Iterator[tuple[str, Level, str]]:
    """Yield the name, the level and the words of each axis that differs."""
    if answer.by == "noise":
        for axis in moved(report.noise.behaviour):
            yield axis.name, "error" if axis.blocks else "note", f"{axis.title}: {_words(axis)}"
        return
    for one in report.axes:
        if one.severity != "none":
            text = f"{one.name} is {one.severity}: {change(one)} {one.note}".strip()
            yield one.name, _LEVELS[level_named(one.severity)], text


def to_sarif(report: DiffReport, answer: GateAnswer, policy: Policy | None) -> str:
    """Return the regressions, each at the line of its rule in the policy file, and the axes that differ."""
    places = _places(policy)
    results = [
        SarifResult(
            alert.rule_id,
            _level_of_alert(alert, report, answer),
            f"{alert.detail} (session {alert.session_id}, turn {alert.index})",
            places.get(alert.rule_id),
            {"alertId": alert.alert_id},
        )
        for alert in report.regressions
    ]
    results += [SarifResult(f"axis/{name}", level, text) for name, level, text in _measured_levels(report, answer)]
    return write_sarif(results, sorted({result.rule_id for result in results if result.rule_id}))


def to_github(report: DiffReport, answer: GateAnswer, policy: Policy | None) -> str:
    """Return a line for each regression and each axis that differs, as GitHub shows them beside the code."""
    places = _places(policy)
    lines = []
    for alert in report.regressions:
        text = f"{alert.detail} (session {alert.session_id}, turn {alert.index})"
        level = _level_of_alert(alert, report, answer)
        lines.append(annotation(level, alert.rule_id, text, places.get(alert.rule_id)))
    lines += [annotation(level, f"diff {name}", text, None) for name, level, text in _measured_levels(report, answer)]
    return "\n".join(lines)


def _places(policy: Policy | None) -> dict[str, Place]:
    return {rule.id: rule.place for rule in policy.rules} if policy else {}
