"""``check``: recorded sessions against a policy."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Annotated

import typer

from stream_guard.cli.findings import FailOnSeverity, FindingFormat, FindingOutput, leave
from stream_guard.cli.run import say_counts, say_never_saw
from stream_guard.commands import AllowUnjudged, PolicyFile, SettingsFile, SourceFormat
from stream_guard.decoding.places import RecordPlaces
from stream_guard.model import Finding
from stream_guard.observability.counts import Counts
from stream_guard.pipeline import Pipeline, open_table
from stream_guard.running.assembly import Assembly
from stream_guard.sessions.table import SessionTable
from stream_guard.settings import load_settings
from stream_guard.sources import open_source


def check(
    traces: Annotated[
        list[str], typer.Argument(help="Files, folders or kafka:// topics of recorded events, or - for standard input.")
    ],
    policy: PolicyFile,
    form: Annotated[FindingFormat, typer.Option("--format", help="How to print the findings.")] = FindingFormat.TABLE,
    fail_on: Annotated[
        FailOnSeverity, typer.Option(help="Findings this severe, or more, make the exit code 1.")
    ] = FailOnSeverity.INFO,
    allow_inconclusive: AllowUnjudged = False,
    source_format: SourceFormat = "auto",
    settings_file: SettingsFile = None,
) -> None:
    """Find what recorded sessions do wrong; exit 1 for findings, 4 when something could not be judged."""
    counts = Counts()
    with Assembly(load_settings(settings_file)) as assembly:
        rules = assembly.load_policy(policy, source_format)
        for warning in rules.warnings:
            typer.echo(str(warning), err=True)
        letters = assembly.open_dead_letters(None, source_format, counts)
        table = open_table(rules, counts, assembly.settings.sessions)
        places = RecordPlaces()
        pipeline = Pipeline(assembly.make_decoder(source_format), table, letters, places)
        found = judge(traces, pipeline, table, assembly)
        found = [finding if finding.line else places.located(finding) for finding in found]
        output = FindingOutput(rules.version, form, assembly, counts)
        output.give(found)
        output.end()
    say_counts(counts, letters)
    say_never_saw(rules, counts, as_json=form is not FindingFormat.TABLE)
    leave(output.worst, fail_on, counts, letters.total, allow_inconclusive=allow_inconclusive)


def judge(traces: Sequence[str], pipeline: Pipeline, table: SessionTable, assembly: Assembly) -> list[Finding]:
    """Run every record of every trace; all sessions end with the input."""
    found: list[Finding] = []
    settings = assembly.settings
    for trace in traces:
        with closing(open_source(trace, limits=settings.decode, kafka=settings.kafka)) as source:
            pipeline.run((record for record in source if record is not None), found)
        table.commit_if_full()
    pipeline.finish(found)
    table.end_all(found)
    return found
