"""The report for a terminal."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stream_guard.reports import visible
from stream_guard_diff.comparison import DiffReport
from stream_guard_diff.gate import FailOn, trips
from stream_guard_diff.report_summary import change, drift_sentence, sureness, verdict

_COLOURS = {"none": "dim", "minor": "yellow", "moderate": "dark_orange", "severe": "bold red"}


def print_table(report: DiffReport, fail_on: FailOn, console: Console) -> None:
    """Print what changed, then what the gate says."""
    console.print(Group(*_parts(report)))
    colour = "bold red" if trips(report, fail_on) else "green"
    console.print(Text(verdict(report, fail_on), style=colour))


def _parts(report: DiffReport) -> list[RenderableType]:
    parts: list[RenderableType] = [_axes(report)]
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
        parts.append(_divergences(report))
    if report.drift is not None:
        parts.append(Text(drift_sentence(report)))
    return parts


def _axes(report: DiffReport) -> Table:
    table = Table(title=f"Axes over {len(report.sessions)} session(s)", title_justify="left")
    for name in ("axis", "baseline → candidate", "severity", "how sure", "note"):
        table.add_column(name)
    for axis in report.axes:
        said = axis.severity if axis.severity != "none" else "better" if axis.direction == "better" else "-"
        cells = (Text(change(axis)), Text(said, style=_COLOURS[axis.severity]), Text(sureness(axis)))
        table.add_row(Text(axis.name), *cells, Text(visible(axis.note)))
    return table


def _divergences(report: DiffReport) -> Table:
    first = report.first_divergence
    assert first is not None  # noqa: S101  # asked before
    title = f"Divergences: {report.divergence_count}, the first at turn {first.baseline_turn} ({first.kind})"
    table = Table(title=title, title_justify="left")
    for name in ("class", "session", "baseline", "candidate", "what"):
        table.add_column(name)
    for one in report.divergences:
        table.add_row(
            one.kind.value,
            Text(visible(one.session_id)),
            str(one.baseline_turn),
            str(one.candidate_turn),
            Text(visible(one.detail)),
        )
    return table
