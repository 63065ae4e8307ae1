"""``check``: recorded sessions against a policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

import typer
from msgspec.structs import replace

from stream_guard.analysis.labels import score_rules, score_table
from stream_guard.cli.backtest import open_labels
from stream_guard.cli.closing import say_at_end
from stream_guard.cli.findings import (
    FailOnSeverity,
    ReportedFormat,
    leave,
    print_findings,
    print_rules,
    worst_of,
)
from stream_guard.cli.progress import Watch, extent_of_all, show_progress
from stream_guard.cli.run import say_counts
from stream_guard.commands import AllowUnjudged, PolicyFile, SettingsFile, SourceFormat, require_extra
from stream_guard.decoding.places import RecordPlaces
from stream_guard.model import Finding
from stream_guard.observability.counts import Counts
from stream_guard.pipeline import Pipeline, open_table
from stream_guard.ports import Record, Source
from stream_guard.reports.findings import FindingReport
from stream_guard.running.assembly import Assembly
from stream_guard.sessions.table import SessionTable
from stream_guard.settings import load_settings
from stream_guard.sources import open_source

_EVERY: Final = 256  # records between two looks at the clock


def check(
    traces: Annotated[
        list[str], typer.Argument(help="Files, folders or kafka:// topics of recorded events, or - for standard input.")
    ],
    policy: PolicyFile,
    form: Annotated[ReportedFormat, typer.Option("--format", help="How to print the findings.")] = ReportedFormat.TABLE,
    fail_on: Annotated[
        FailOnSeverity, typer.Option(help="Findings this severe, or more, make the exit code 1.")
    ] = FailOnSeverity.INFO,
    labels: Annotated[
        Path | None, typer.Option(help="A JSON file that says which sessions are bad: also print how right rules are.")
    ] = None,
    allow_inconclusive: AllowUnjudged = False,
    source_format: SourceFormat = "auto",
    settings_file: SettingsFile = None,
) -> None:
    """Find what recorded sessions do wrong; exit 1 for findings, 4 when something could not be judged."""
    if form.extra:
        require_extra("analysis", form.extra)
    known = None if labels is None else open_labels(labels)
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
        found = [_from_here(finding if finding.line else places.located(finding)) for finding in found]
        report = FindingReport(rules, found, counts)
        print_findings(report, form, assembly)
    say_counts(counts, letters)
    if form is ReportedFormat.TABLE:
        print_rules(report)
    if known is not None:
        scores = score_rules((rule.id for rule in rules.rules), found, known)
        typer.echo("\n".join(score_table(scores)), err=form is not ReportedFormat.TABLE)
    say_at_end(rules, counts, recorded=True, as_json=form is not ReportedFormat.TABLE)
    leave(worst_of(report.alerts), fail_on, counts, letters.total, allow_inconclusive=allow_inconclusive)


def judge(traces: Sequence[str], pipeline: Pipeline, table: SessionTable, assembly: Assembly) -> list[Finding]:
    """Run every record of every trace; all sessions end with the input."""
    found: list[Finding] = []
    settings = assembly.settings
    with show_progress(extent_of_all(traces, settings), "check", plain=False) as watch:
        read = _Reading(watch)
        for trace in traces:
            with closing(open_source(trace, limits=settings.decode, kafka=settings.kafka)) as source:
                pipeline.run(read.records(source), found)
            table.commit_if_full()
        pipeline.finish(found)
        table.end_all(found)
    return found


def _from_here(finding: Finding) -> Finding:
    """Return the finding with its file named from the current folder, as readers of reports look files up."""
    file = Path(finding.file)
    here = Path.cwd()
    if not finding.file or not file.is_relative_to(here):
        return finding
    return replace(finding, file=file.relative_to(here).as_posix())


class _Reading:
    """Counts the records of several sources, and tells a watch now and then how far they were read."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._count = 0
        self._positions: dict[str, int] = {}

    def records(self, source: Source) -> Iterator[Record]:
        """Yield the records of one more source."""
        for record in source:
            if record is None:
                continue
            self._count += 1
            if self._count % _EVERY == 0:
                self._watch(self._count, self._positions | dict(source.positions()))
            yield record
        self._positions |= source.positions()
