"""Recordings judged whole, with a bar while it lasts; what was found names its file from here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from stream_guard.cli.progress import Watch, extent_of_all, show_progress
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.places import RecordPlaces
from stream_guard.model import Finding
from stream_guard.observability.counts import Counts
from stream_guard.pipeline import Pipeline, open_table
from stream_guard.policy.spec import Policy
from stream_guard.ports import Record, Source
from stream_guard.running.assembly import Assembly
from stream_guard.sources import open_source

_EVERY: Final = 256  # records between two looks at the clock


class Judged(NamedTuple):
    """What became of recordings."""

    found: list[Finding]
    counts: Counts
    dead_letters: DeadLetters


def judge(traces: Sequence[str], policy: Policy, form: str, assembly: Assembly) -> Judged:
    """Run every record of every trace; all sessions end with the input."""
    counts = Counts()
    letters = assembly.open_dead_letters(None, form, counts)
    table = open_table(policy, counts, assembly.settings.sessions)
    pipeline = Pipeline(assembly.make_decoder(form, recorded=True), table, letters, RecordPlaces())
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
    pipeline.locate(found)
    return Judged([from_here(finding) for finding in found], counts, letters)


def from_here(finding: Finding) -> Finding:
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
