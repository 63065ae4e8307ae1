"""Findings on the command line: printed as they come, sent to sinks where asked for, and turned into an exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import typer
from rich.console import Console

from stream_guard.alerting.delivery import alerts_of
from stream_guard.cli.forms import FailOnSeverity, FindingFormat, ReportedFormat, print_table
from stream_guard.cli.timeline import STYLES, TimelinePrinter
from stream_guard.commands import FINDINGS, INCONCLUSIVE, print_text
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Alert, Finding, Severity
from stream_guard.reports.findings import FindingReport, by_session, to_github, to_html, to_junit, to_markdown, to_sarif
from stream_guard.reports.safe import visible
from stream_guard.running.assembly import Assembly
from stream_guard.storage.stores import CheckpointStore


class FindingOutput:
    """Prints the alerts of findings, and sends them to the sinks that ``--emit`` names."""

    def __init__(
        self,
        version: str,
        form: FindingFormat,
        assembly: Assembly,
        counts: Counts,
        *,
        emit: Sequence[str] = (),
        progress: CheckpointStore | None = None,
    ) -> None:
        self.worst: Severity | None = None
        self._version = version
        self._delivery = assembly.open_delivery(emit, counts, progress)
        self._listed: list[Alert] | None = [] if form == "json" else None
        target = "console" if form == "table" else "jsonl:-"
        self._printer = assembly.open_sink(target) if self._listed is None else None

    def keep(self, found: Sequence[Finding]) -> dict[str, int]:
        """Print and send the alerts of a batch; return where the sinks stand."""
        alerts = alerts_of(found, self._version)
        for alert in alerts:
            severity = Severity[alert.severity.upper()]
            self.worst = severity if self.worst is None else max(self.worst, severity)
        if self._printer is not None:
            self._printer.send(alerts)
        if self._listed is not None:
            self._listed += alerts
        self._delivery.deliver(alerts)
        return self.positions()

    def positions(self) -> dict[str, int]:
        """Return where the sinks stand."""
        return self._delivery.flush()

    def end(self) -> None:
        """Print the list, where one list was asked for."""
        if self._listed is not None:
            typer.echo(msgspec.json.format(msgspec.json.encode(self._listed), indent=2).decode())


def print_findings(report: FindingReport, form: ReportedFormat, assembly: Assembly, *, shadow: bool = False) -> None:
    """Print what a check found, in the form that was asked for. On a terminal, a table is grouped by session.

    With ``shadow``, findings of rules in shadow mode are listed too, each marked as such.
    """
    listed = report.all if shadow else report.alerts
    if form == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode(listed), indent=2).decode())
    elif form == "jsonl":
        assembly.open_sink("jsonl:-").send(listed)
    elif form == "table":
        console = Console(highlight=False, markup=False, emoji=False)
        if console.is_terminal:
            _print_sessions(listed, console)
        else:
            assembly.open_sink("console").send(listed)
    else:
        print_text(_WRITERS[form](report))


def _print_sessions(listed: Sequence[Alert], console: Console) -> None:
    for session_id, alerts in by_session(listed).items():
        printer = TimelinePrinter(console)
        printer.line(f"session {visible(session_id)}", style="bold")
        for alert in alerts:
            turn = "" if alert.index is None else f" turn {alert.index}"
            place = f" ({visible(alert.file)}:{alert.line})" if alert.line else ""
            reason = f" ({visible(alert.reason)})" if alert.reason else ""
            text = f"{visible(alert.rule_id)}{turn}: {visible(alert.detail)}{reason}{place} [{alert.alert_id}]"
            mode = "shadow " if alert.shadow else ""
            printer.line(
                f"{mode}{alert.severity.upper()} {text}", indent=2, hanging=4, style=STYLES.get(alert.severity, "")
            )
        console.print()


def print_rules(report: FindingReport) -> None:
    """Print a line for each rule on standard error: how often it fired, and where it could not judge."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    headings = ["rule", "severity", "findings", "sessions", "shadow", "not judged"]
    rows = [
        [visible(rule.rule_id), rule.severity, *map(str, (rule.findings, rule.sessions, rule.shadow, rule.unjudged))]
        for rule in report.rules
    ]
    used = [column for column in range(len(headings)) if column < 4 or any(row[column] != "0" for row in rows)]
    print_table([headings[column] for column in used], [[row[column] for column in used] for row in rows], console)


def worst_of(alerts: Sequence[Alert]) -> Severity | None:
    """Return the worst severity of alerts; None where there are none."""
    return max((Severity[alert.severity.upper()] for alert in alerts), default=None)


_WRITERS: Final[dict[str, Callable[[FindingReport], str]]] = {
    "markdown": to_markdown,
    "sarif": to_sarif,
    "junit": to_junit,
    "github": to_github,
    "html": to_html,
}


def leave(
    worst: Severity | None,
    fail_on: FailOnSeverity,
    counts: Counts,
    unread: int,
    *,
    allow_inconclusive: bool,
    resumed: bool = False,
) -> None:
    """Leave with the exit code that the findings ask for, or with the one for what could not be judged.

    What was ``resumed`` may find that everything was read before.
    """
    if fail_on != "none" and worst is not None and worst >= Severity[fail_on.upper()]:
        raise typer.Exit(FINDINGS)
    if allow_inconclusive:
        return
    if not counts.records and not resumed:
        typer.echo("inconclusive: there was no record to judge; --allow-inconclusive accepts that", err=True)
        raise typer.Exit(INCONCLUSIVE)
    if unread or counts.unevaluable or counts.rule_errors:
        typer.echo("inconclusive: not everything could be judged; --allow-inconclusive accepts that", err=True)
        raise typer.Exit(INCONCLUSIVE)
