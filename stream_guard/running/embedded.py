"""The embedded runner: the whole pipeline in one process, no broker needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag
from typing import Final

import msgspec

from stream_guard.alerting.delivery import alerts_of
from stream_guard.asking.desk import JudgedAlerts, JudgedBatch, questions_in
from stream_guard.commit import Commit, Positions
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.places import RecordPlaces
from stream_guard.decoding.wrapping import Watch, watched
from stream_guard.judge.clock import QUORUM, SharedClock
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding
from stream_guard.judge.spec import Policy
from stream_guard.observability.status import RunStatus
from stream_guard.observability.steady_clock import receiver_time
from stream_guard.pipeline import Pipeline
from stream_guard.ports import BatchedSource, Record, Source
from stream_guard.running.assembly import Assembly, start_desk
from stream_guard.running.checkpoint import (
    DEAD_LETTERS_META,
    FILES_META,
    SOURCE_META,
    WATERMARK_META,
    Checkpoint,
    position_of,
    sink_positions,
)
from stream_guard.running.reload import ReloadingPolicy
from stream_guard.settings import CommitSettings
from stream_guard.sources import is_written
from stream_guard.sources.kafka import KafkaSource
from stream_guard.sources.marks import MarkedSource
from stream_guard.sources.otlp import OtlpSource
from stream_guard.storage.stores import MemoryStore

CHUNK: Final = 500  # records that are judged between two looks at the clock
_PLACED: Final = 2000  # sessions whose alerts name files and lines: a run goes on for months, a check does not


class EmbeddedRunner:
    """Reads a source to its end, or until it is stopped; delivers alerts; commits its progress."""

    def __init__(  # the parts of a run
        self,
        *,
        source: Source,
        pipeline: Pipeline,
        judge: Judge,
        alerts: JudgedAlerts,
        dead_letters: DeadLetters,
        checkpoint: Checkpoint | None = None,
        status: RunStatus | None = None,
        often: CommitSettings | None = None,
    ) -> None:
        self._often = often or CommitSettings()
        self._source = source
        self._pipeline = pipeline
        self._judge = judge
        self._alerts = alerts
        self._commit: Commit[JudgedBatch] = Commit(alerts.keep, dead_letters)
        self._counts = judge.counts
        self._checkpoint = checkpoint
        self._status = status
        self.adopted: Callable[[Policy], None] = _nothing  # called with each policy that comes into force
        self.caught_up: Callable[[], None] = _no_more  # called once, when all records that were there are judged
        self._found: list[Finding] = []
        if checkpoint is not None and (clock := checkpoint.meta().get(WATERMARK_META)) is not None:
            stored = float(clock)
            if judge.clock.is_credible(stored):  # an earlier version believed any stamp
                judge.watermark = stored

    def run(self, *, stopped: Callable[[], bool] = lambda: False, reloading: ReloadingPolicy | None = None) -> None:
        """Judge every record of the source. Its end ends all sessions; a stop ends none.

        A changed policy takes effect between two commits.
        """
        self.commit()  # before the first alert: the positions of sinks and dead letters are part of the promise
        pending, last = 0, time.monotonic()
        for chunk, quiet in _chunks(self._source, min(CHUNK, self._often.records)):
            self._judge_chunk(chunk)
            pending += len(chunk)
            due = pending >= self._often.records or time.monotonic() - last >= self._often.seconds
            if (pending and (quiet or due)) or (quiet and self._alerts.are_there()):
                self.commit()
                pending, last = 0, time.monotonic()
            if quiet and not pending:
                self.caught_up()
                self.caught_up = _no_more
            if not pending and reloading is not None and (policy := reloading.poll()) is not None:
                self._use_policy(policy)
            if stopped():
                break
        else:
            self._pipeline.finish(self._found)
            self._found += self._judge.end()
            self.commit()  # so that questions are on disk, and asked
            self._alerts.wait()
        self.commit()

    @property
    def policy(self) -> Policy:
        """The policy that is in force now."""
        return self._judge.policy

    def _use_policy(self, policy: Policy) -> None:
        """Judge by another policy from here on. Everything before was committed under the old one."""
        self._judge.use(policy)
        if self._status is not None:
            self._status.use_policy(policy)
        else:
            self._counts.begin_policy()
        self.adopted(policy)

    def _judge_chunk(self, chunk: list[Record]) -> None:
        began = time.perf_counter()
        self._pipeline.run(chunk, self._found)
        if self._status is not None:
            self._status.batch(len(chunk), time.perf_counter() - began)

    def commit(self) -> None:
        """Make everything so far durable."""
        self._pipeline.locate(self._found)
        version = self._judge.policy.version
        judged = JudgedBatch(alerts_of(self._found, version), questions_in(self._found), self._judge)
        self._commit.run(judged, self._write, self._note_written)

    def _write(self, kept: Positions) -> None:
        meta = sink_positions(kept.sinks)
        meta[SOURCE_META] = msgspec.json.encode(dict(self._source.positions()))
        if isinstance(self._source, MarkedSource):
            meta[FILES_META] = msgspec.json.encode(self._source.marks())
        meta[WATERMARK_META] = repr(self._judge.watermark).encode()
        meta[DEAD_LETTERS_META] = msgspec.json.encode(kept.letters)
        if self._checkpoint is not None:
            self._judge.commit()
            self._checkpoint.commit(meta)
        else:
            self._judge.make_room()

    def _note_written(self, _: None) -> None:
        self._found.clear()
        if self._checkpoint is not None:
            self._counts.state_bytes, self._counts.durable_at = self._checkpoint.size(), time.time()


def _no_more() -> None:
    """Do nothing: nobody waits for it, or it was said."""


def _nothing(policy: Policy) -> None:
    """Do nothing: nobody keeps a record of policies."""


def _chunks(source: Source, size: int) -> Iterator[tuple[list[Record], bool]]:
    """Yield the records in chunks; the flag says that no further record is there right now."""
    chunk: list[Record] = []
    if isinstance(source, BatchedSource):
        for batch in source.batches(size):
            yield batch, not batch
        yield [], True
        return
    for record in source:
        if record is None:
            yield chunk, True
            chunk = []
            continue
        chunk.append(record)
        if len(chunk) >= size:
            yield chunk, False
            chunk = []
    yield chunk, True


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a user says about one run."""

    source: str
    policy: Policy
    alerts: Sequence[str] = ("console",)
    form: str = "native"
    checkpoint: Path | None = None
    dead_letters: str | Path | None = None  # a file, or kafka://...
    follow: bool = False
    serve: bool = False  # metrics and health over HTTP
    reloading: ReloadingPolicy | None = None  # follows the file that the policy came from
    watch: Watch | None = None  # is shown every event before it is judged
    counts: Counts | None = None  # to count in; its own without them


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that is ready to start."""

    runner: EmbeddedRunner
    counts: Counts
    dead_letters: DeadLetters
    url: str  # of /metrics and /healthz; empty when they are not served
    listening: str = ""  # where telemetry is received; empty when it is not


def open_run(options: RunOptions, assembly: Assembly, stop: Flag) -> OpenRun:
    """Open the parts of a run, in an order that fails before anything is written; ``assembly`` closes them."""
    settings = assembly.settings
    checkpoint = assembly.open_checkpoint(options.checkpoint, options.source)
    counts = options.counts if options.counts is not None else Counts()
    if options.reloading is not None:
        counts.policy_reloads = options.reloading.results
    policy = assembly.fit(options.policy, options.form)
    recorded = not options.follow and is_written(options.source)
    decoder = watched(assembly.make_decoder(options.form, recorded=recorded), options.watch)
    delivery = assembly.open_delivery(options.alerts, counts, checkpoint, routes=True, stopped=stop.is_set)
    position = position_of(checkpoint, DEAD_LETTERS_META)
    letters = assembly.open_dead_letters(options.dead_letters, options.form, counts, position)
    source = assembly.open_source(options.source, follow=options.follow, checkpoint=checkpoint, stop=stop)
    skew = settings.sessions.max_future_skew
    clock = SharedClock(receiver_time, skew=skew, live=options.follow, quorum=QUORUM)
    desk = assembly.open_desk(policy, f"run {options.checkpoint or options.source}", counts)
    answers = desk or assembly.open_answers(policy)
    store = checkpoint if checkpoint is not None else MemoryStore()
    judge = Judge(policy, settings.sessions, mode="stream", store=store, counts=counts, clock=clock, answers=answers)
    status = RunStatus(counts, policy, settings.serve) if options.serve else None
    if status is not None:
        assembly.opened.callback(status.close)
        if isinstance(source, KafkaSource):
            status.lag = source.lag
    # Only records of files have lines to name.
    places = None if isinstance(source, KafkaSource | OtlpSource) else RecordPlaces(sessions=_PLACED)
    runner = EmbeddedRunner(
        source=source,
        pipeline=Pipeline(decoder, judge, letters, places),
        judge=judge,
        alerts=JudgedAlerts(delivery, answers),
        dead_letters=letters,
        checkpoint=checkpoint,
        status=status,
        often=settings.commit,
    )
    start_desk(desk, assembly)
    runner.adopted = lambda changed: assembly.note_policy(changed, options.alerts)
    runner.adopted(policy)
    listening = source.url if isinstance(source, OtlpSource) else ""
    return OpenRun(runner, counts, letters, status.url if status is not None else "", listening)
