"""``replay``: archives and topic ranges through a policy, as often as you like, without sending anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from math import inf
from pathlib import Path
from threading import Event as Flag
from typing import Annotated
from urllib.parse import parse_qs, quote

import msgspec
import typer

from stream_guard.cli.backtest import backtest
from stream_guard.cli.check import FindingFormat, Gate, leave
from stream_guard.cli.outlet import FindingOutput
from stream_guard.cli.progress import extent_of, show_progress
from stream_guard.cli.run import say_counts, set_up, stop_on_signals
from stream_guard.commands import (
    INCONCLUSIVE,
    AllowUnjudged,
    Checkpoint,
    LogForm,
    PolicyFile,
    SettingsFile,
    SourceFormat,
)
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.selection import EventSelection, Pacer, Share, Span
from stream_guard.errors import SettingsError
from stream_guard.kafka.address import SCHEME
from stream_guard.model import Severity
from stream_guard.observability.counts import Counts
from stream_guard.pipeline import open_table
from stream_guard.policy.load import load_policy
from stream_guard.policy.spec import Policy
from stream_guard.registry import Registry, build_registry
from stream_guard.running.assembly import lateness_of, make_decoder
from stream_guard.running.embedded import SOURCE_META
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
from stream_guard.sources import open_source
from stream_guard.storage.stores import CheckpointStore

_WHAT_META = "replay"


class Pace(StrEnum):
    """How quickly events follow each other."""

    FULL = "full"
    ORIGINAL = "original"


@dataclass(frozen=True, slots=True)
class Job:
    """What is replayed; the same in every process."""

    source: str
    policy: bytes
    policy_file: Path
    form: str
    span: Span
    processes: int
    checkpoint: Path | None
    settings: Settings

    def load(self, registry: Registry) -> Policy:
        """Return the policy as it was when the replay began, whatever has become of the file."""
        return load_policy(
            self.policy,
            registry,
            file=str(self.policy_file),
            folder=self.policy_file.parent,
            lateness=lateness_of(self.form, registry, self.settings),
        )


def replay(  # noqa: PLR0913, PLR0917  # as many as a user may say
    source: Annotated[
        str, typer.Argument(help="An archive: a file or folder of JSON lines, or kafka://HOST:PORT/TOPIC.")
    ],
    policy: PolicyFile,
    start: Annotated[
        str | None, typer.Option("--from", help="Only events from this time on; of a topic, records, or an offset.")
    ] = None,
    stop: Annotated[
        str | None, typer.Option("--to", help="Only events before this time; of a topic, records, or an offset.")
    ] = None,
    pace: Annotated[Pace, typer.Option(help="As fast as possible, or as it happened.")] = Pace.FULL,
    speed: Annotated[float, typer.Option(min=0.001, help="With --pace original: this many times faster.")] = 1.0,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Share the sessions among this many.")] = 1,
    checkpoint: Checkpoint = None,
    compare_policy: Annotated[
        Path | None, typer.Option(help="Show which alerts --policy adds and removes against this one.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="With --compare-policy: JSON of sessions: true if bad, or the rules it breaks."),
    ] = None,
    emit: Annotated[
        list[str] | None, typer.Option("--emit", help="Send the alerts to this sink too, as run does; may be repeated.")
    ] = None,
    form: Annotated[FindingFormat, typer.Option("--format", help="How to print the findings.")] = FindingFormat.TABLE,
    fail_on: Annotated[Gate, typer.Option(help="Findings this severe, or more, make the exit code 1.")] = Gate.NONE,
    allow_inconclusive: AllowUnjudged = False,
    source_format: SourceFormat = "native",
    log_format: LogForm = None,
    settings_file: SettingsFile = None,
) -> None:
    """Judge an archive again, with the same result every time; nothing is sent anywhere without --emit."""
    settings, registry = set_up(settings_file, log_format)
    target, span = bounds_of(source, start, stop)
    lateness = lateness_of(source_format, registry, settings)
    rules = load_policy(policy, registry, lateness=lateness)
    if compare_policy is not None:
        decoder = make_decoder(source_format, registry, settings)
        letters = DeadLetters(None, Counts(), format_name=source_format)
        with closing(open_source(target, limits=settings.decode, kafka=settings.kafka)) as opened_source:
            old = load_policy(compare_policy, registry, lateness=lateness)
            raise typer.Exit(
                backtest(opened_source, decoder, span, (rules, old), labels, form, settings.sessions, letters)
            )
    if labels is not None:
        raise SettingsError("--labels says how right the rules are, and goes with --compare-policy")
    job = Job(
        source=target,
        policy=policy.read_bytes(),
        policy_file=policy,
        form=source_format,
        span=span,
        processes=processes_for(rules, processes, target, pace),
        checkpoint=checkpoint,
        settings=settings,
    )
    for warning in rules.warnings:
        typer.echo(str(warning), err=True)
    with stop_on_signals() as stopping, ExitStack() as opened:
        worst, told, finished = _run(job, registry, emit or (), form, (pace, speed), stopping, opened)
    _end(worst, told, fail_on, finished=finished, allow_inconclusive=allow_inconclusive, checkpoint=checkpoint)


def bounds_of(source: str, start: str | None, stop: str | None) -> tuple[str, Span]:
    """Return the source and the span of event time: a topic is bounded by its address, everything else by time."""
    if not source.startswith(SCHEME):
        return source, Span(-inf if start is None else _moment("--from", start), _end_of(stop))
    given = {name: value for name, value in (("from", start), ("to", stop)) if value is not None}
    for name in given:
        if name in parse_qs(source.partition("?")[2]):
            raise SettingsError(f"--{name} is given, and the address has {name}= as well; leave one of them out")
    options = "&".join(f"{name}={quote(value, safe=':+')}" for name, value in given.items())
    joint = "" if not options else "&" if "?" in source else "?"
    return f"{source}{joint}{options}", Span()


def _end_of(stop: str | None) -> float:
    return inf if stop is None else _moment("--to", stop)


def _moment(flag: str, text: str) -> float:
    if re.fullmatch(r"\d{1,12}(\.\d+)?", text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(
            f"{flag} {text} is no time; write 2026-01-31T12:00:00Z (UTC where no zone is given), or seconds since 1970"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


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


def _run(
    job: Job,
    registry: Registry,
    emit: Sequence[str],
    form: FindingFormat,
    pacing: tuple[Pace, float],
    stop: Flag,
    opened: ExitStack,
) -> tuple[Severity | None, ReplaySummary, bool]:
    """Replay, and return the worst severity that was found, what else there is to tell, and whether it finished."""
    progress = _open_progress(job, registry, opened)
    outlet = FindingOutput(job.load(registry).version, form, emit, registry, job.settings, progress)
    opened.callback(outlet.close)
    pace, speed = pacing
    pacer = Pacer(speed, stop.wait) if pace is Pace.ORIGINAL else None
    workers: list[ShareWorker] = []
    if job.processes == 1:
        workers.append(LocalWorker(open_reader(job, Share(), pacer, stop)))
    else:
        for number in range(job.processes):
            name = f"share {number + 1} of {job.processes}"
            remote = ProcessWorker(open_reader, job, Share(number, job.processes), name=name)
            opened.callback(remote.close)
            workers.append(remote)
    told = () if progress is None else msgspec.json.decode(progress.meta().get(REPORTED_META, b"[]"))
    with show_progress(extent_of(job.source, job.settings)) as watch:
        # One by one at the original pace: an alert must not wait for the next event.
        batch = 1 if pacer is not None else job.settings.commit.records
        leader = Replay(workers, outlet.give, batch=batch, told=told, watch=watch)
        outlet.leader = leader
        finished = leader.run(stopped=stop.is_set)
    return outlet.worst, leader.tell(), finished


def open_reader(job: Job, share: Share, pacer: Pacer | None = None, stop: Flag | None = None) -> ShareReader:
    """Return the reader of one share; called in the process that does the work."""
    registry = build_registry(job.settings.plugins)
    counts = Counts()
    store = None
    if job.checkpoint is not None:
        suffix = f".{share.number + 1}-of-{share.of}"
        store = CheckpointStore(job.checkpoint.with_name(job.checkpoint.name + suffix))
    positions = {} if store is None else msgspec.json.decode(store.meta().get(SOURCE_META, b"{}"), type=dict[str, int])
    settings = job.settings
    source = open_source(job.source, limits=settings.decode, positions=positions, stop=stop, kafka=settings.kafka)
    return ShareReader(
        source,
        EventSelection(make_decoder(job.form, registry, settings), share, job.span, pacer),
        open_table(job.load(registry), counts, without_eviction(settings.sessions), store),
        DeadLetters(None, counts, format_name=job.form),
        progress=store,
        stopped=stop.is_set if stop is not None and pacer is not None else lambda: False,
    )


def _open_progress(job: Job, registry: Registry, opened: ExitStack) -> CheckpointStore | None:
    """Open the file that says how far the alerts came, and refuse one of another replay."""
    if job.checkpoint is None:
        return None
    if job.source == "-":
        raise SettingsError("--checkpoint cannot be used with standard input: a pipe cannot be taken up again")
    store = CheckpointStore(job.checkpoint)
    opened.callback(store.close)
    wanted = {
        "source": job.source,
        "policy": job.load(registry).version,
        "--from": str(job.span.start),
        "--to": str(job.span.stop),
        "--from-format": job.form,
        "--processes": str(job.processes),
    }
    known = store.meta().get(_WHAT_META)
    for name, value in msgspec.json.decode(known, type=dict[str, str]).items() if known else ():
        if wanted.get(name) != value:
            raise SettingsError(
                f"{job.checkpoint}: was begun with {name} {value}, this is {wanted.get(name)}; "
                "use the same again, or another --checkpoint"
            )
    store.commit({_WHAT_META: msgspec.json.encode(wanted)})
    return store


@dataclass(frozen=True, slots=True)
class _Letters:
    total: int
    reasons: list[str]

    def summary(self) -> list[str]:
        """Return what was wrong, and where first."""
        return self.reasons


def _end(
    worst: Severity | None,
    told: ReplaySummary,
    fail_on: Gate,
    *,
    finished: bool,
    allow_inconclusive: bool,
    checkpoint: Path | None,
) -> None:
    """Say what came of it, and choose the exit code."""
    counts: Counts = told.counts
    say_counts(counts, _Letters(told.dead_letters, told.reasons))
    if told.left_out:
        typer.echo(f"{told.left_out} events outside --from and --to, or without a time", err=True)
    if not finished:
        again = "it goes on from here with the same command" if checkpoint else "with --checkpoint it could go on"
        typer.echo(f"stopped before the end; {again}", err=True)
        raise typer.Exit(INCONCLUSIVE)
    leave(worst, fail_on, counts, told.dead_letters, allow_inconclusive=allow_inconclusive)
