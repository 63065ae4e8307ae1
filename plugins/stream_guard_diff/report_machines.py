"""Reports that machines read: JSON, JUnit, SARIF and GitHub's annotations."""

from __future__ import annotations

from io import BytesIO
from pathlib import PurePosixPath

import msgspec
from junitparser import Failure, JUnitXml, TestCase, TestSuite
from sarif_pydantic import (
    ArtifactLocation,
    Level,
    Location,
    Message,
    PhysicalLocation,
    Region,
    ReportingDescriptor,
    Result,
    Run,
    Sarif,
    Tool,
    ToolDriver,
)

from stream_guard.errors import Place
from stream_guard.policy.spec import Policy
from stream_guard.reports.safe import visible
from stream_guard_diff.comparison import DiffReport
from stream_guard_diff.gate import FailOn, level_of
from stream_guard_diff.report_summary import change, verdict
from stream_guard_diff.statistics import Level as Severity

_SARIF_LEVELS = {
    Severity.NONE: Level.NONE,
    Severity.MINOR: Level.NOTE,
    Severity.MODERATE: Level.WARNING,
    Severity.SEVERE: Level.ERROR,
}
_COMMANDS = {Severity.MINOR: "notice", Severity.MODERATE: "warning", Severity.SEVERE: "error"}


def to_json(report: DiffReport, fail_on: FailOn) -> str:
    """Return the whole report as data; an infinite statistic is null, because JSON has no other word for it."""
    data = msgspec.to_builtins(report) | {"fail_on": fail_on.value, "verdict": verdict(report, fail_on)}
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def to_junit(report: DiffReport, fail_on: FailOn) -> str:
    """Return a test case for each axis and each broken rule; what trips the gate is a failure."""
    bound = Severity.SEVERE + 1 if fail_on is FailOn.NONE else int(Severity[fail_on.name])
    axes, rules = TestSuite("diff.axes"), TestSuite("diff.policy")
    for axis in report.axes:
        case = TestCase(axis.name, "diff.axes")
        if Severity[axis.severity.upper()] >= bound:
            case.result = [Failure(f"{axis.severity}: {visible(change(axis))} {visible(axis.note)}".strip())]
        axes.add_testcase(case)
    for alert in report.regressions:
        case = TestCase(visible(f"{alert.rule_id} in {alert.session_id}"), "diff.policy")
        if level_of(alert.severity) >= bound:
            case.result = [Failure(visible(alert.detail))]
        rules.add_testcase(case)
    document = JUnitXml("stream-guard diff")
    document.add_testsuite(axes)
    document.add_testsuite(rules)
    written = BytesIO()
    document.write(written)
    return written.getvalue().decode()


def to_sarif(report: DiffReport, policy: Policy | None) -> str:
    """Return the regressions, each at the line of its rule in the policy file, and the axes that speak."""
    places = {rule.id: rule.place for rule in policy.rules} if policy else {}
    results = [
        Result(
            ruleId=alert.rule_id,
            level=_SARIF_LEVELS[level_of(alert.severity)],
            message=Message(text=visible(f"{alert.detail} (session {alert.session_id}, turn {alert.index})")),
            locations=locations(places.get(alert.rule_id)),
            partialFingerprints={"alertId": alert.alert_id},
        )
        for alert in report.regressions
    ]
    results += [
        Result(
            ruleId=f"axis/{axis.name}",
            level=_SARIF_LEVELS[Severity[axis.severity.upper()]],
            message=Message(text=visible(f"{axis.name}: {change(axis)} {axis.note}".strip())),
        )
        for axis in report.axes
        if axis.severity != "none"
    ]
    rules = [ReportingDescriptor(id=name) for name in sorted({result.rule_id for result in results if result.rule_id})]
    tool = Tool(driver=ToolDriver(name="stream-guard", rules=rules))
    document = Sarif(schema_uri="https://json.schemastore.org/sarif-2.1.0.json", runs=[Run(tool=tool, results=results)])
    written: str = document.model_dump_json(by_alias=True, exclude_none=True, indent=2)
    return written


def locations(place: Place | None) -> list[Location] | None:
    """Return where in a file something stands, as SARIF writes it; None where that is not known."""
    if place is None or not place.file:
        return None
    region = Region(startLine=place.line, startColumn=max(1, place.column)) if place.line else None
    where = ArtifactLocation(uri=PurePosixPath(place.file).as_posix())
    return [Location(physicalLocation=PhysicalLocation(artifactLocation=where, region=region))]


def to_github(report: DiffReport, policy: Policy | None) -> str:
    """Return a line for each regression and each axis that speaks, as GitHub shows them beside the code."""
    places = {rule.id: rule.place for rule in policy.rules} if policy else {}
    lines = []
    for alert in report.regressions:
        text = f"{alert.detail} (session {alert.session_id}, turn {alert.index})"
        command = _COMMANDS[level_of(alert.severity)]
        lines.append(annotation(command, alert.rule_id, text, places.get(alert.rule_id)))
    for axis in report.axes:
        level = Severity[axis.severity.upper()]
        if level:
            text = f"{axis.name} is {axis.severity}: {change(axis)} {axis.note}".strip()
            lines.append(annotation(_COMMANDS[level], f"diff {axis.name}", text, None))
    return "\n".join(lines)


def annotation(command: str, title: str, text: str, place: Place | None) -> str:
    """Return one line that GitHub shows beside the code: ``command`` is error, warning or notice."""
    where = f" file={_escape(place.file, ':', ',')},line={max(1, place.line)}," if place and place.file else " "
    return f"::{command}{where}title={_escape(title, ':', ',')}::{_escape(text)}"


def _escape(text: str, *more: str) -> str:
    """Commands have their own escapes; what is invisible is spelled out, so that no line becomes a command."""
    text = visible(text)
    for char in ("%", "\r", "\n", *more):
        text = text.replace(char, f"%{ord(char):02X}")
    return text
