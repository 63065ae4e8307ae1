"""The report as a comment on a pull request."""

from __future__ import annotations

from stream_guard.reports import code, number
from stream_guard_diff.comparison import DiffReport
from stream_guard_diff.gate import FailOn, trips
from stream_guard_diff.report_summary import change, drift_sentence, sureness, verdict

_MARKS = {"none": "·", "minor": "🟡", "moderate": "🟠", "severe": "🔴"}


def to_markdown(report: DiffReport, fail_on: FailOn) -> str:
    """Return the report; what agents wrote stands in code spans and can neither link nor mention anyone."""
    lines = [
        f"## {'❌' if trips(report, fail_on) else '✅'} Behaviour diff",
        "",
        verdict(report, fail_on).replace("@", "@\u200b"),
        "",
        "| axis | baseline → candidate | severity | how sure |",
        "|---|---|---|---|",
    ]
    for axis in report.axes:
        said = "better" if axis.direction == "better" else axis.severity
        lines.append(f"| {axis.name} | {change(axis)} | {_MARKS[axis.severity]} {said} | {sureness(axis)} |")
    for title, alerts in (("Regressions", report.regressions), ("Fixes", report.fixes)):
        if alerts:
            lines += ["", f"### {title}: {len(alerts)}", ""]
            lines += [
                f"- {code(alert.rule_id)} ({alert.severity}) in {code(alert.session_id)}"
                f"{'' if alert.index is None else f', turn {alert.index}'}: {code(alert.detail)}"
                for alert in alerts[:20]
            ]
            lines += [f"- and {len(alerts) - 20} more"] if len(alerts) > 20 else []
    lines += _divergences(report)
    if report.drift is not None:
        lines += ["", drift_sentence(report)]
    return "\n".join(lines) + "\n"


def _divergences(report: DiffReport) -> list[str]:
    if report.first_divergence is None:
        return ["", "The sessions do not part."]
    first = report.first_divergence
    lines = [
        "",
        f"### Where they part: {report.divergence_count} place(s)",
        "",
        f"First at turn {first.baseline_turn} of {code(first.session_id)}: **{first.kind}**, {code(first.detail)}",
        "",
    ]
    return lines + [
        f"- **{one.kind}** ({number(one.confidence)}) at {one.baseline_turn} / {one.candidate_turn} "
        f"of {code(one.session_id)}: {code(one.detail)}"
        for one in report.divergences
    ]
