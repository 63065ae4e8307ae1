"""Jobs of ``replay``: what is replayed, shared among processes, resumed, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from math import inf
from pathlib import Path
from threading import Event as Flag
from typing import Final
from urllib.parse import parse_qs, quote

import msgspec
import typer

from stream_guard.cli.findings import FindingOutput, leave
from stream_guard.cli.forms import FailOnSeverity, FindingFormat, Pace
from stream_guard.cli.judging import from_here
from stream_guard.cli.moments import moment_of
from stream_guard.cli.progress import extent_of, show_progress
from stream_guard.commands import INCONCLUSIVE
from stream_guard.decoding.selection import EventSelection, Pacer, Share, TimeSpan
from stream_guard.errors import SettingsError
from stream_guard.kafka.address import SCHEME
from stream_guard.model import Finding, Severity
from stream_guard.observability.counts import Counts
from stream_guard.pipeline import open_table
from stream_guard.policy.load import load_policy
from stream_guard.policy.spec import Policy
from stream_guard.running.assembly import Assembly
from stream_guard.running.replay import (
    REPORTED_META,
    LocalWorker,
    Replay,
    ReplaySummary,
    ShareReader,
    ShareWorker,
    can_be_shared,
    without_eviction,
)
from stream_guard.running.replay_process import ProcessWorker
from stream_guard.settings import Settings
from stream_guard.storage.stores import CheckpointStore

_WHAT_META: Final = "replay"


@dataclass(frozen=True, slots=True)
class Job:
    """What is replayed; the same in every process."""

    source: str
    policy: bytes
    policy_file: Path
    form: str
    span: TimeSpan
    processes: int
    checkpoint: Path | None
    settings: Settings

    def load(self, assembly: Assembly) -> Policy:
        """Return the policy as it was when the replay began, whatever has become of the file."""
        file = self.policy_file
        loaded = load_policy(self.policy, assembly.registry, file=str(file), folder=file.parent)
        return assembly.fit(loaded, self.form)


def bounds_of(source: str, start: str | None, stop: str | None) -> tuple[str, TimeSpan]:
    """Return the source and the span of event time: a topic is bounded by its address, everything else by time."""
    if not source.startswith(SCHEME):
        return source, TimeSpan(-inf if start is None else moment_of("--from", start), _end_of(stop))
    given = {name: value for name, value in (("from", start), ("to", stop)) if value is not None}
    for name in given:
        if name in parse_qs(source.partition("?")[2]):
            raise SettingsError(f"--{name} is given, and the address has {name}= as well; leave one of them out")
    options = "&".join(f"{name}={quote(value, safe=':+')}" for name, value in given.items())
    joint = "" if not options else "&" if "?" in source else "?"
    return f"{source}{joint}{options}", TimeSpan()


def _end_of(stop: str | None) -> float:
    return inf if stop is None else moment_of("--to", stop)


def processes_for(policy: Policy, wanted: int, target: str, pace: Pace) -> int:
    """Return how many processes can share the work, and say why when they are fewer than wanted."""
    if wanted == 1:
        return 1
    spanning = [spec.id for spec in policy.rules if "session" not in spec.key]
    if not can_be_shared(policy):
        typer.echo(f"one process: the key of {', '.join(spanning)} spans sessions, which cannot be shared", err=True)
        return 1
    if pace is Pace.ORIGINAL:
        typer.echo("one process: at the original pace more than one would only wait together", err=True)
        return 1
    if target.startswith(SCHEME) and "to" not in parse_qs(target.partition("?")[2]):
        raise SettingsError("a topic has no settled end for several processes to agree on; say where it is with --to")
    if target == "-":
        raise SettingsError("standard input can be read once, so --processes cannot share it")
    return wanted


def run_job(
    job: Job, assembly: Assembly, emit: Sequence[str], form: FindingFormat, pacing: tuple[Pace, float], stop: Flag
) -> tuple[Severity | None, ReplaySummary, bool]:
    """Replay, and return the worst severity that was found, what else happened, and whether it finished."""
    progress = _open_progress(job, assembly)
    counts = Counts()  # of the delivery; the shares count the rest
    output = FindingOutput(job.load(assembly).version, form, assembly, counts, emit=emit, progress=progress)
    pace, speed = pacing
    pacer = Pacer(speed, stop.wait) if pace is Pace.ORIGINAL else None
    reported = () if progress is None else msgspec.json.decode(progress.meta().get(REPORTED_META, b"[]"))

    def give(found: list[Finding], rule_errors: Set[str]) -> None:
        output.give(
            [from_here(finding) for finding in found], {REPORTED_META: msgspec.json.encode(sorted(rule_errors))}
        )

    with show_progress(extent_of(job.source, job.settings)) as watch:
        # One by one at the original pace: an alert must not wait for the next event.
        batch = 1 if pacer is not None else job.settings.commit.records
        workers = _open_workers(job, assembly, pacer, stop)
        replay = Replay(workers, give, batch=batch, reported=reported, watch=watch)
        finished = replay.run(stopped=stop.is_set)
    output.end()
    summary = replay.summary()
    summary.counts.add(counts)
    return output.worst, summary, finished


def _open_workers(job: Job, assembly: Assembly, pacer: Pacer | None, stop: Flag) -> list[ShareWorker]:
    if job.processes == 1:
        return [LocalWorker(open_reader(job, Share(), pacer, stop))]
    workers: list[ShareWorker] = []
    for number in range(job.processes):
        name = f"share {number + 1} of {job.processes}"
        remote = ProcessWorker(open_reader, job, Share(number, job.processes), name=name)
        assembly.opened.callback(remote.close)
        workers.append(remote)
    return workers


def open_reader(job: Job, share: Share, pacer: Pacer | None = None, stop: Flag | None = None) -> ShareReader:
    """Return the reader of one share; called in the process that does the work."""
    assembly = Assembly(job.settings)
    counts = Counts()
    store = None
    if job.checkpoint is not None:
        suffix = f".{share.number + 1}-of-{share.of}"
        store = CheckpointStore(job.checkpoint.with_name(job.checkpoint.name + suffix))
    decoder = assembly.make_decoder(job.form, recorded=pacer is None)
    return ShareReader(
        assembly.open_source(job.source, checkpoint=store, stop=stop),
        EventSelection(decoder, share, job.span, pacer),
        open_table(job.load(assembly), counts, without_eviction(job.settings.sessions), store),
        assembly.open_dead_letters(None, job.form, counts),
        progress=store,
        stopped=stop.is_set if stop is not None and pacer is not None else lambda: False,
    )


def _open_progress(job: Job, assembly: Assembly) -> CheckpointStore | None:
    """Open the file that says how far the alerts came, and refuse one of another replay."""
    store = assembly.open_checkpoint(job.checkpoint, job.source)
    if store is None:
        return None
    wanted = {
        "source": job.source,
        "policy": job.load(assembly).version,
        "--from": str(job.span.start),
        "--to": str(job.span.stop),
        "--from-format": job.form,
        "--processes": str(job.processes),
    }
    known = store.meta().get(_WHAT_META)
    for name, value in msgspec.json.decode(known, type=dict[str, str]).items() if known else ():
        before_auto = name == "--from-format" and value == "native" and job.form == "auto"  # which was the default
        if wanted.get(name) != value and not before_auto:
            raise SettingsError(
                f"{job.checkpoint}: was begun with {name} {value}, this is {wanted.get(name)}; "
                "use the same again, or another --checkpoint"
            )
    store.commit({_WHAT_META: msgspec.json.encode(wanted)})
    return store


def end(
    worst: Severity | None,
    summary: ReplaySummary,
    fail_on: FailOnSeverity,
    *,
    finished: bool,
    allow_inconclusive: bool,
    checkpoint: Path | None,
) -> None:
    """Say what came of it, and choose the exit code."""
    counts: Counts = summary.counts
    if summary.left_out:
        typer.echo(f"{summary.left_out} events outside --from and --to, or without a time", err=True)
    if not finished:
        again = "it goes on from here with the same command" if checkpoint else "with --checkpoint it could go on"
        typer.echo(f"stopped before the end; {again}", err=True)
        raise typer.Exit(INCONCLUSIVE)
    leave(worst, fail_on, counts, summary.dead_letters.total, allow_inconclusive=allow_inconclusive)
