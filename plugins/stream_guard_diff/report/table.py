"""The report for a terminal: tables."""

from __future__ import annotations

from io import StringIO
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stream_guard.reports import visible
from stream_guard_diff.change_sentences import chance_words, change_words, interval_words, power_words
from stream_guard_diff.comparison import DiffReport
from stream_guard_diff.deciding import GateAnswer
from stream_guard_diff.report.summary import change, drift_sentence, moved, pairing_sentence, sureness

_COLOURS: Final = {"none": "dim", "minor": "yellow", "moderate": "dark_orange", "severe": "bold red"}
_VERDICTS: Final = {"worse": "bold red", "changed": "dark_orange", "better": "green", "small": "dim", "noise": "dim"}


def to_table(report: DiffReport, answer: GateAnswer) -> str:
    """Return tables of what changed, then what the gate says."""
    written = StringIO()
    console = Console(file=written, width=120)
    console.print(Group(*_parts(report)))
    colour = "bold red" if answer.trips else "green"
    console.print(Text(answer.verdict, style=colour))
    return written.getvalue()


def _parts(report: DiffReport) -> list[RenderableType]:
    parts: list[RenderableType] = [*_measured(report), _axis_table(report)]
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
    sentences = [drift_sentence(report), pairing_sentence(report)]
    sentences += [f"  left out: {one.session_id} of the {one.side}: {one.why}" for one in report.left_out[:5]]
    return parts + [Text(visible(sentence)) for sentence in sentences if sentence]


def _measured(report: DiffReport) -> list[RenderableType]:
    """What is more than noise, then what else could have been seen."""
    noise = report.noise
    if noise.not_measured or not noise.axes:
        return []
    title = f"Measured: {noise.baseline} against {noise.candidate} sessions in {noise.strata} strata"
    table = Table(title=title, title_justify="left")
    for name in ("axis", "verdict", "what changed", "95 %", "chance"):
        table.add_column(name)
    for axis in moved(noise.axes):
        verdict = f"{axis.verdict}{', blocks' if axis.blocks else ''}"
        for number, found in enumerate(axis.changes):
            first = (Text(axis.title), Text(verdict, style=_VERDICTS[axis.verdict])) if not number else (Text(), Text())
            words = Text(change_words(found))
            table.add_row(*first, words, Text(interval_words(found)), Text(chance_words(found.chance)))
        if axis.because:
            table.add_row(Text(), Text(), Text(f"explained by what got better: {axis.because}"), Text(), Text())
    calm = [axis for axis in noise.axes if axis.verdict == "noise"]
    for axis in calm:
        seen = f"no more than noise; would have been seen: {power_words(axis, noise.candidate)}"
        table.add_row(Text(axis.title), Text("noise", style="dim"), Text(seen, style="dim"), Text(), Text())
    return [table]


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
