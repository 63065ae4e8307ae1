"""Recordings judged whole, with a bar while it lasts; what was found names its file from here."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from stream_guard.cli.progress import extent_of_all, show_progress
from stream_guard.cli.sharing import Job, open_workers
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.model import Finding
from stream_guard.observability.counts import Counts
from stream_guard.running.assembly import Assembly
from stream_guard.running.replay import Replay

_STRETCH: Final = 10_000  # records that each process reads before all of them wait for each other


class Judged(NamedTuple):
    """What became of recordings."""

    found: list[Finding]
    counts: Counts
    dead_letters: DeadLetters


def judge(job: Job, assembly: Assembly) -> Judged:
    """Run every record of every source; all sessions end with the input."""
    counts = Counts()
    letters = assembly.open_dead_letters(None, job.form, counts)
    found: list[Finding] = []
    with show_progress(extent_of_all(job.sources, job.settings), "check", plain=False) as watch:
        workers = open_workers(job, assembly, may_copy=True)
        replay = Replay(workers, lambda given, _: found.extend(given), letters, batch=_STRETCH, watch=watch)
        replay.run()
    counts.add(replay.summary().counts)
    return Judged([from_here(finding) for finding in found], counts, letters)


def from_here(finding: Finding) -> Finding:
    """Return the finding with its file named from the current folder, as readers of reports look files up."""
    file = Path(finding.file)
    here = Path.cwd()
    if not finding.file or not file.is_relative_to(here):
        return finding
    return replace(finding, file=file.relative_to(here).as_posix())
