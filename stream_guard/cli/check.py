"""``check``: recorded sessions against a policy."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from stream_guard.alerting.alerts import make_alert
from stream_guard.cli.run import say_counts
from stream_guard.commands import FINDINGS, INCONCLUSIVE, AllowUnjudged, PolicyFile, SettingsFile, SourceFormat
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.model import Alert, Finding, Severity
from stream_guard.observability.counts import Counts
from stream_guard.pipeline import Pipeline, open_table
from stream_guard.policy.load import load_policy
from stream_guard.ports import Decoder
from stream_guard.registry import Registry, build_registry
from stream_guard.running.assembly import lateness_of, make_decoder, open_sink
from stream_guard.sessions.table import SessionTable
from stream_guard.settings import Settings, load_settings
from stream_guard.sources import open_source


class FindingFormat(StrEnum):
    """How findings are printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


class Gate(StrEnum):
    """From which severity on findings fail the check."""

    NONE = "none"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


def check(
    traces: Annotated[
        list[str], typer.Argument(help="Files, folders or kafka:// topics of recorded events, or - for standard input.")
    ],
    policy: PolicyFile,
    form: Annotated[FindingFormat, typer.Option("--format", help="How to print the findings.")] = FindingFormat.TABLE,
    fail_on: Annotated[Gate, typer.Option(help="Findings this severe, or more, make the exit code 1.")] = Gate.INFO,
    allow_inconclusive: AllowUnjudged = False,
    source_format: SourceFormat = "native",
    settings_file: SettingsFile = None,
) -> None:
    """Find what recorded sessions do wrong; exit 1 for findings, 4 when something could not be judged."""
    settings = load_settings(settings_file)
    registry = build_registry(settings.plugins)
    rules = load_policy(policy, registry, lateness=lateness_of(source_format, registry, settings))
    for warning in rules.warnings:
        typer.echo(str(warning), err=True)
    counts = Counts()
    letters = DeadLetters(None, counts, format_name=source_format)
    table = open_table(rules, counts, settings.sessions)
    found = judge(traces, table, make_decoder(source_format, registry, settings), letters, settings)
    alerts = [make_alert(finding, rules.version) for finding in found if not finding.shadow]
    show(alerts, form, registry, settings)
    say_counts(counts, letters)
    worst = max((finding.severity for finding in found if not finding.shadow), default=None)
    leave(worst, fail_on, counts, letters.total, allow_inconclusive=allow_inconclusive)


def leave(worst: Severity | None, fail_on: Gate, counts: Counts, unread: int, *, allow_inconclusive: bool) -> None:
    """Leave with the exit code that the findings ask for, or with the one for what could not be judged."""
    if fail_on is not Gate.NONE and worst is not None and worst >= Severity[fail_on.name]:
        raise typer.Exit(FINDINGS)
    if (unread or counts.unevaluable or counts.rule_errors) and not allow_inconclusive:
        typer.echo("inconclusive: not everything could be judged; --allow-inconclusive accepts that", err=True)
        raise typer.Exit(INCONCLUSIVE)


def judge(
    traces: Sequence[str], table: SessionTable, decoder: Decoder, letters: DeadLetters, settings: Settings
) -> list[Finding]:
    """Run every record of every trace; all sessions end with the input."""
    found: list[Finding] = []
    pipeline = Pipeline(decoder, table, letters)
    for trace in traces:
        source = open_source(trace, limits=settings.decode, kafka=settings.kafka)
        try:
            pipeline.run((record for record in source if record is not None), found)
        finally:
            source.close()
        table.commit_if_full()
    pipeline.finish(found)
    table.end_all(found)
    return found


def show(alerts: Sequence[Alert], form: FindingFormat, registry: Registry, settings: Settings) -> None:
    """Print the findings on standard output."""
    if form is FindingFormat.JSON:
        typer.echo(msgspec.json.format(msgspec.json.encode(list(alerts)), indent=2).decode())
        return
    sink = open_sink("console" if form is FindingFormat.TABLE else "jsonl:-", registry, settings)
    sink.send(alerts)
    sink.close()
