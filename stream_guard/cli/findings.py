"""Findings on the command line: printed as they come, sent to sinks where asked for, and turned into an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec
import typer

from stream_guard.alerting.delivery import alerts_of
from stream_guard.commands import FINDINGS, INCONCLUSIVE
from stream_guard.model import Alert, Finding, Severity
from stream_guard.observability.counts import Counts
from stream_guard.running.assembly import Assembly
from stream_guard.running.checkpoint import sink_positions
from stream_guard.storage.stores import CheckpointStore


class FindingFormat(StrEnum):
    """How findings are printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


class FailOnSeverity(StrEnum):
    """The severity from which on findings fail a check."""

    NONE = "none"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class FindingOutput:
    """Prints the alerts of findings, and sends them to the sinks that ``--emit`` names.

    With ``progress``, the positions of the sinks are committed after each batch, together with ``meta``.
    """

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
        self._progress = progress
        self._delivery = assembly.open_delivery(emit, counts, progress)
        self._listed: list[Alert] | None = [] if form is FindingFormat.JSON else None
        target = "console" if form is FindingFormat.TABLE else "jsonl:-"
        self._printer = assembly.open_sink(target) if self._listed is None else None

    def give(self, found: Sequence[Finding], meta: dict[str, bytes] | None = None) -> None:
        """Print and send the alerts of a batch, and commit how far the sinks came."""
        alerts = alerts_of(found, self._version)
        for alert in alerts:
            severity = Severity[alert.severity.upper()]
            self.worst = severity if self.worst is None else max(self.worst, severity)
        if self._printer is not None:
            self._printer.send(alerts)
        if self._listed is not None:
            self._listed += alerts
        self._delivery.deliver(alerts)
        positions = sink_positions(self._delivery.flush())
        if self._progress is not None:
            self._progress.commit(positions | (meta or {}))

    def end(self) -> None:
        """Print the list, where one list was asked for."""
        if self._listed is not None:
            typer.echo(msgspec.json.format(msgspec.json.encode(self._listed), indent=2).decode())


def leave(
    worst: Severity | None, fail_on: FailOnSeverity, counts: Counts, unread: int, *, allow_inconclusive: bool
) -> None:
    """Leave with the exit code that the findings ask for, or with the one for what could not be judged."""
    if fail_on is not FailOnSeverity.NONE and worst is not None and worst >= Severity[fail_on.name]:
        raise typer.Exit(FINDINGS)
    if (unread or counts.unevaluable or counts.rule_errors) and not allow_inconclusive:
        typer.echo("inconclusive: not everything could be judged; --allow-inconclusive accepts that", err=True)
        raise typer.Exit(INCONCLUSIVE)
