"""Reports that people read: a table for a terminal, and Markdown for a comment on a pull request."""

from __future__ import annotations

from io import StringIO
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stream_guard.reports import code, number, visible
from stream_guard_diff.comparison import DiffReport
from stream_guard_diff.gate import FailOn
from stream_guard_diff.report.summary import change, drift_sentence, sureness, verdict

_COLOURS: Final = {"none": "dim", "minor": "yellow", "moderate": "dark_orange", "severe": "bold red"}
_MARKS: Final = {"none": "·", "minor": "🟡", "moderate": "🟠", "severe": "🔴"}


def to_table(report: DiffReport, fail_on: FailOn) -> str:
    """Return tables of what changed, then what the gate says."""
    written = StringIO()
    console = Console(file=written, width=120)
    console.print(Group(*_parts(report)))
    colour = "bold red" if report.trips(fail_on) else "green"
    console.print(Text(verdict(report, fail_on), style=colour))
    return written.getvalue()


def _parts(report: DiffReport) -> list[RenderableType]:
    parts: list[RenderableType] = [_axis_table(report)]
    for title, alerts in (("Regressions", report.regressions), ("Fixes", report.fixes)):
        if alerts:
            table = Table(title=f"{title}: {len(alerts)}", title_justify="left")
            for name in ("rule", "severity", "session", "turn", "detail"):
                table.add_column(name)
            for alert in alerts[:50]:
                turn = "-" if alert.index is None else str(alert.index)
                cells = (alert.rule_id, alert.severity, alert.session_id, turn, alert.detail)
                table.add_row(*(Text(visible(cell)) for cell in cells))
            parts.append(table)
    if report.first_divergence is not None:
        parts.append(_divergence_table(report))
    if report.drift is not None:
        parts.append(Text(drift_sentence(report)))
    return parts


def _axis_table(report: DiffReport) -> Table:
    table = Table(title=f"Axes over {len(report.sessions)} session(s)", title_justify="left")
    for name in ("axis", "baseline → candidate", "severity", "how sure", "note"):
        table.add_column(name)
    for axis in report.axes:
        level = axis.severity if axis.severity != "none" else "better" if axis.direction == "better" else "-"
        cells = (Text(change(axis)), Text(level, style=_COLOURS[axis.severity]), Text(sureness(axis)))
        table.add_row(Text(axis.name), *cells, Text(visible(axis.note)))
    return table


def _divergence_table(report: DiffReport) -> Table:
    first = report.first_divergence
    assert first is not None  # noqa: S101  # asked before
    title = f"Divergences: {report.divergence_count}, the first at turn {first.baseline_turn} ({first.kind})"
    table = Table(title=title, title_justify="left")
    for name in ("class", "session", "baseline", "candidate", "what"):
        table.add_column(name)
    for divergence in report.divergences:
        table.add_row(
            divergence.kind.value,
            Text(visible(divergence.session_id)),
            str(divergence.baseline_turn),
            str(divergence.candidate_turn),
            Text(visible(divergence.detail)),
        )
    return table


def to_markdown(report: DiffReport, fail_on: FailOn) -> str:
    """Return the report; texts of agents stand in code spans, where they cannot link or mention anyone."""
    lines = [
        f"## {'❌' if report.trips(fail_on) else '✅'} Behaviour diff",
        "",
        verdict(report, fail_on).replace("@", "@\u200b"),
        "",
        "| axis | baseline → candidate | severity | how sure |",
        "|---|---|---|---|",
    ]
    for axis in report.axes:
        level = "better" if axis.direction == "better" else axis.severity
        lines.append(f"| {axis.name} | {change(axis)} | {_MARKS[axis.severity]} {level} | {sureness(axis)} |")
    for title, alerts in (("Regressions", report.regressions), ("Fixes", report.fixes)):
        if alerts:
            lines += ["", f"### {title}: {len(alerts)}", ""]
            lines += [
                f"- {code(alert.rule_id)} ({alert.severity}) in {code(alert.session_id)}"
                f"{'' if alert.index is None else f', turn {alert.index}'}: {code(alert.detail)}"
                for alert in alerts[:20]
            ]
            lines += [f"- and {len(alerts) - 20} more"] if len(alerts) > 20 else []
    lines += _divergence_lines(report)
    if report.drift is not None:
        lines += ["", drift_sentence(report)]
    return "\n".join(lines) + "\n"


def _divergence_lines(report: DiffReport) -> list[str]:
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
        f"- **{divergence.kind}** ({number(divergence.confidence)}) "
        f"at {divergence.baseline_turn} / {divergence.candidate_turn} "
        f"of {code(divergence.session_id)}: {code(divergence.detail)}"
        for divergence in report.divergences
    ]
