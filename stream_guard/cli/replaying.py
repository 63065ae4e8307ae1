"""How ``replay`` goes: what is replayed, printed, resumed, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from threading import Event as Flag
from typing import Final, NamedTuple
from urllib.parse import parse_qs, quote

import msgspec
import typer

from stream_guard.cli.findings import FindingOutput, leave
from stream_guard.cli.forms import FailOnSeverity, FindingFormat, Pace, parse_time
from stream_guard.cli.judging import from_here
from stream_guard.cli.progress import extent_of, show_progress
from stream_guard.cli.sharing import Job, count_jobs, open_workers
from stream_guard.commands import INCONCLUSIVE
from stream_guard.commit import Positions
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.selection import BUCKETS, Pacer, TimeSpan
from stream_guard.errors import SettingsError
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Finding, Severity
from stream_guard.judge.spec import Policy
from stream_guard.kafka.address import SCHEME
from stream_guard.running.assembly import Assembly
from stream_guard.running.checkpoint import sink_positions
from stream_guard.running.replay import GIVEN_META, Given, Replay, ReplaySummary
from stream_guard.storage.stores import CheckpointStore

_WHAT_META: Final = "replay"


def bounds_of(source: str, start: str | None, stop: str | None) -> tuple[str, TimeSpan]:
    """Return the source and the span of event time: a topic is bounded by its address, everything else by time."""
    if not source.startswith(SCHEME):
        return source, TimeSpan(-inf if start is None else parse_time("--from", start), _end_of(stop))
    given = {name: value for name, value in (("from", start), ("to", stop)) if value is not None}
    for name in given:
        if name in parse_qs(source.partition("?")[2]):
            raise SettingsError(f"--{name} is given, and the address has {name}= as well; leave one of them out")
    options = "&".join(f"{name}={quote(value, safe=':+')}" for name, value in given.items())
    joint = "" if not options else "&" if "?" in source else "?"
    return f"{source}{joint}{options}", TimeSpan()


def _end_of(stop: str | None) -> float:
    return inf if stop is None else parse_time("--to", stop)


def jobs_for(wanted: str, policy: Policy, target: str, pace: Pace) -> int:
    """Return how many processes can share the replay, and say why when they are fewer than wanted."""
    jobs = count_jobs(wanted, policy, [target])
    if jobs > 1 and pace == "original":
        typer.echo("one process: at the original pace more than one would only wait together", err=True)
        return 1
    return jobs


class Replayed(NamedTuple):
    """What became of a replay."""

    worst: Severity | None  # of the findings
    summary: ReplaySummary
    dead_letters: DeadLetters
    finished: bool


def run_job(
    job: Job, assembly: Assembly, emit: Sequence[str], form: FindingFormat, pacing: tuple[Pace, float], stop: Flag
) -> Replayed:
    """Replay to the end, or until it is stopped."""
    progress = _open_progress(job, assembly)
    counts = Counts()  # of the delivery and the dead letters; the shares count the rest
    letters = assembly.open_dead_letters(None, job.form, counts)
    output = FindingOutput(job.load(assembly).version, form, assembly, counts, emit=emit, progress=progress)
    pace, speed = pacing
    pacer = Pacer(speed, stop.wait) if pace == "original" else None

    def keep(found: list[Finding]) -> dict[str, int]:
        return output.keep([from_here(finding) for finding in found])

    def note(given: Given, kept: Positions) -> None:
        if progress is not None:
            progress.commit(sink_positions(kept.sinks) | {GIVEN_META: msgspec.json.encode(given)})

    if progress is not None:  # before the first alert: what is sent after it is known to be repeated
        progress.commit(sink_positions(output.positions()))

    with show_progress(extent_of(job.sources[0], job.settings)) as watch:
        # One by one at the original pace: an alert must not wait for the next event.
        batch = 1 if pacer is not None else job.settings.commit.records
        # A database of a sink or a checkpoint that is open must not be so in two processes.
        workers = open_workers(job, assembly, pacer, stop, may_copy=progress is None and not emit)
        before = _given_before(progress)
        replay = Replay(workers, keep, letters, batch=batch, given=before, note=note, watch=watch)
        finished = replay.run(stopped=stop.is_set)
    output.end()
    summary = replay.summary()
    summary.counts.add(counts)
    return Replayed(output.worst, summary, letters, finished)


def _given_before(progress: CheckpointStore | None) -> Given:
    """Return how far the findings of an earlier run went."""
    known = {} if progress is None else progress.meta()
    return msgspec.json.decode(known[GIVEN_META], type=Given) if GIVEN_META in known else Given()


def _open_progress(job: Job, assembly: Assembly) -> CheckpointStore | None:
    """Open the file that says how far the alerts came, and refuse one of another replay."""
    source = job.sources[0]
    store = assembly.open_checkpoint(job.checkpoint, source)
    if store is None:
        return None
    wanted = {
        "source": source,
        "policy": job.load(assembly).version,
        "--from": str(job.span.start),
        "--to": str(job.span.stop),
        "--from-format": job.form,
        "--jobs": str(job.jobs),
    }
    known = store.meta().get(_WHAT_META)
    for name, value in msgspec.json.decode(known, type=dict[str, str]).items() if known else ():
        before_auto = name == "--from-format" and value == "native" and job.form == "auto"  # which was the default
        # Shares were called so, and held other sessions where their number does not divide that of the buckets.
        before_jobs = name == "--processes" and value == str(job.jobs) and BUCKETS % job.jobs == 0
        if wanted.get(name) != value and not before_auto and not before_jobs:
            raise SettingsError(
                f"{job.checkpoint}: was begun with {name} {value}, this is {wanted.get(name, 'another version')}; "
                "use the same again, or another --checkpoint"
            )
    store.commit({_WHAT_META: msgspec.json.encode(wanted)})
    return store


def end(replayed: Replayed, fail_on: FailOnSeverity, *, allow_inconclusive: bool, checkpoint: Path | None) -> None:
    """Say what came of it, and choose the exit code."""
    worst, summary, letters, finished = replayed
    counts: Counts = summary.counts
    if summary.left_out:
        typer.echo(f"{summary.left_out} events outside --from and --to, or without a time", err=True)
    if not finished:
        again = "it goes on from here with the same command" if checkpoint else "with --checkpoint it could go on"
        typer.echo(f"stopped before the end; {again}", err=True)
        raise typer.Exit(INCONCLUSIVE)
    leave(
        worst,
        fail_on,
        counts,
        letters.total,
        allow_inconclusive=allow_inconclusive,
        resumed=checkpoint is not None,
    )
