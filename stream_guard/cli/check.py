"""``check``: recorded sessions against a policy."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import typer

from stream_guard.cli.forms import FORMAT_NEEDS, FailOn, Jobs, ReportedFormat
from stream_guard.cli.run import say_counts
from stream_guard.commands import INCONCLUSIVE, AllowUnjudged, PolicyFile, SettingsFile, SourceFormat, require_extra
from stream_guard.errors import SettingsError
from stream_guard.judge.model import Event


def check(  # noqa: PLR0913, PLR0917  # as many as a user may say
    traces: Annotated[
        list[str], typer.Argument(help="Files, folders or kafka:// topics of recorded events, or - for standard input.")
    ],
    policy: PolicyFile,
    form: Annotated[ReportedFormat, typer.Option("--format", help="How to print the findings.")] = "table",
    fail_on: FailOn = "info",
    labels: Annotated[
        Path | None, typer.Option(help="A JSON file that says which sessions are bad: also print how right rules are.")
    ] = None,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="List findings of rules in shadow mode too; the exit code ignores them.")
    ] = False,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask the judge of the settings what its recorded answers leave open.")
    ] = False,
    jobs: Jobs = "1",
    allow_inconclusive: AllowUnjudged = False,
    source_format: SourceFormat = "auto",
    settings_file: SettingsFile = None,
) -> None:
    """Find what recorded sessions do wrong; exit 1 for findings, 4 when something could not be judged."""
    from stream_guard.analysis.labels import score_rules, score_table
    from stream_guard.cli.backtest import open_labels
    from stream_guard.cli.closing import say_at_end
    from stream_guard.cli.findings import leave, print_findings, print_rules, worst_of
    from stream_guard.cli.judging import judge
    from stream_guard.cli.sharing import Job, count_jobs
    from stream_guard.reports.findings import FindingReport
    from stream_guard.running.assembly import Assembly
    from stream_guard.settings import load_settings

    if shadow and form not in {"table", "json", "jsonl"}:
        raise SettingsError(f"--shadow goes with --format table, json or jsonl, not with {form}")
    if form in FORMAT_NEEDS:
        require_extra("analysis", FORMAT_NEEDS[form])
    known = None if labels is None else open_labels(labels)
    with Assembly(load_settings(settings_file)) as assembly:
        rules = assembly.load_policy(policy, source_format)
        for warning in rules.warnings:
            typer.echo(str(warning), err=True)
        job = Job(
            sources=tuple(traces),
            policy=policy.read_bytes(),
            policy_file=policy,
            form=source_format,
            jobs=count_jobs(jobs, rules, traces),
            settings=assembly.settings,
            asks=ask,
        )
        found, counts, letters = judge(job, assembly)
        report = FindingReport(rules, found, counts)
        print_findings(report, form, assembly, shadow=shadow)
    say_counts(counts, letters)
    if form == "table":
        print_rules(report)
    if known is not None:
        scores = score_rules((rule.id for rule in rules.rules), found, known)
        typer.echo("\n".join(score_table(scores)), err=form != "table")
    say_at_end(rules, counts, recorded=True, as_json=form != "table")
    leave(worst_of(report.alerts), fail_on, counts, letters.total, allow_inconclusive=allow_inconclusive)


# ``convert``: recordings of any format as native JSON lines.


def convert(
    traces: Annotated[
        list[str], typer.Argument(help="Files, folders or kafka:// topics of recordings, or - for standard input.")
    ],
    source_format: SourceFormat = "auto",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write, instead of printing.")
    ] = None,
    dead_letters: Annotated[
        Path | None, typer.Option("--dead-letters", help="A file for records that could not be read.")
    ] = None,
    settings_file: SettingsFile = None,
) -> None:
    """Write recordings as native events, or a program that does for another format; exit 4 for unreadable records."""
    from stream_guard.running.assembly import Assembly
    from stream_guard.settings import load_settings

    count = 0
    with Assembly(load_settings(settings_file)) as assembly:
        recording = assembly.read_events(traces, source_format, dead_letters=dead_letters, tenants=False)
        out = _open(output, assembly.opened)
        for event in recording:
            count += 1
            out.write(native_line(event))
    unread = recording.dead_letters.total
    for advice in recording.advice():
        typer.echo(advice, err=True)
    typer.echo(f"{recording.records} records, {count} events, {unread} could not be read", err=True)
    if unread:
        raise typer.Exit(INCONCLUSIVE)


def native_line(event: Event) -> bytes:
    """Return the event as a line of the native format, without the fields that say nothing."""
    plain: dict[str, Any] = msgspec.to_builtins(event)
    kept = {"kind": plain["kind"]}
    for field in msgspec.structs.fields(event):
        value = plain[field.name]
        silent = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        if value != silent and not (silent == () and value == []):
            kept[field.name] = value
    return msgspec.json.encode(kept) + b"\n"


def _open(output: Path | None, opened: ExitStack) -> BinaryIO:
    if output is None:
        return sys.stdout.buffer
    try:
        return opened.enter_context(output.open("wb"))
    except OSError as error:
        raise SettingsError(f"{output}: cannot be written: {error.strerror}; give another --output") from error
