"""The embedded runner: the whole pipeline in one process, no broker needed.

The order of a commit is the promise: alerts out and durable, dead letters durable, then, in one
transaction, the sessions' states and how far the input was read. Killed at any moment, the next run
repeats at most what came after the last commit, and repeats it with the same alert ids.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from stream_guard.alerting.delivery import Delivery, alerts_of
from stream_guard.engine import Engine
from stream_guard.model import Finding
from stream_guard.pipeline import Pipeline
from stream_guard.policy.spec import Policy
from stream_guard.ports import Record, Sink, Source
from stream_guard.running.reload import ReloadingPolicy
from stream_guard.sessions.table import SessionTable
from stream_guard.settings import CommitSettings

CHUNK: Final = 500

SINK_META: Final = "sink:"
SOURCE_META: Final = "source"
LETTERS_META: Final = "dead_letters"
CLOCK_META: Final = "watermark"


class Checkpoint(Protocol):
    """Where progress is written down; a run without one starts from the beginning each time."""

    def commit(self, meta: Mapping[str, bytes]) -> None:
        """Write everything that was put, and the meta data, in one transaction."""

    def meta(self) -> Mapping[str, bytes]:
        """Return the meta data of the last commit."""


class FlushedDeadLetters(Protocol):
    """The dead letters, as far as a commit is concerned."""

    def flush(self) -> int:
        """Make every dead letter durable, and return the position for the checkpoint."""


class Observer(Protocol):
    """Whoever wants to know that the work goes on, and how long it takes."""

    def batch(self, records: int, seconds: float) -> None:
        """Hear of a batch; one of no records says that there was nothing to do."""

    def use_policy(self, policy: Policy) -> None:
        """Hear that another policy judges from here on; what was counted by rule is of the old one until then."""


class EmbeddedRunner:
    """Reads a source to its end, or until it is stopped; sends alerts; remembers how far it came."""

    def __init__(
        self,
        *,
        source: Source,
        pipeline: Pipeline,
        table: SessionTable,
        sinks: Mapping[str, Sink],
        dead_letters: FlushedDeadLetters,
        checkpoint: Checkpoint | None = None,
        observer: Observer | None = None,
        often: CommitSettings | None = None,
    ) -> None:
        self._often = often or CommitSettings()
        self._source = source
        self._pipeline = pipeline
        self._table = table
        self._delivery = Delivery(sinks, table.counts)
        self._dead_letters = dead_letters
        self._counts = table.counts
        self._checkpoint = checkpoint
        self._observer = observer
        self._found: list[Finding] = []
        if checkpoint is not None and (clock := checkpoint.meta().get(CLOCK_META)) is not None:
            table.watermark = float(clock)

    def run(self, *, stopped: Callable[[], bool] = lambda: False, reloading: ReloadingPolicy | None = None) -> None:
        """Judge everything the source gives; its end is the end of all sessions, being stopped is not.

        A policy that reloads comes into force between two commits.
        """
        self.commit()  # before anything is sent: where sinks and dead letters stood is part of the promise
        pending, last = 0, time.monotonic()
        for chunk, quiet in _chunks(self._source, min(CHUNK, self._often.records)):
            self._judge(chunk)
            pending += len(chunk)
            due = pending >= self._often.records or time.monotonic() - last >= self._often.seconds
            if pending and (quiet or due):
                self.commit()
                pending, last = 0, time.monotonic()
            if not pending and reloading is not None and (policy := reloading.poll()) is not None:
                self._use_policy(policy)
            if stopped():
                break
        else:
            self._pipeline.finish(self._found)
            self._table.end_all(self._found)
        self.commit()

    def _use_policy(self, policy: Policy) -> None:
        """Let another policy judge from here on; everything so far was committed under the old one."""
        engine = Engine(policy, self._counts, mode="stream", max_states=self._table.engine.max_states)
        self._table.use(engine)
        if self._observer is not None:
            self._observer.use_policy(policy)
        else:
            self._counts.begin_policy()

    def _judge(self, chunk: list[Record]) -> None:
        began = time.perf_counter()
        self._pipeline.run(chunk, self._found)
        if self._observer is not None:
            self._observer.batch(len(chunk), time.perf_counter() - began)

    def commit(self) -> None:
        """Bring everything so far to safety, in the order that loses nothing."""
        version = self._table.engine.policy.version
        self._delivery.deliver(alerts_of(self._found, version))
        self._found.clear()
        meta = {f"{SINK_META}{name}": msgspec.json.encode(at) for name, at in self._delivery.flush().items()}
        meta[SOURCE_META] = msgspec.json.encode(dict(self._source.positions()))
        meta[CLOCK_META] = repr(self._table.watermark).encode()
        meta[LETTERS_META] = msgspec.json.encode(self._dead_letters.flush())
        if self._checkpoint is not None:
            self._table.commit()
            self._checkpoint.commit(meta)
        else:
            self._table.commit_if_full()


def _chunks(source: Source, size: int) -> Iterator[tuple[list[Record], bool]]:
    """Yield the records in handfuls; the flag says that nothing more is there right now."""
    chunk: list[Record] = []
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


def source_positions(checkpoint: Checkpoint | None) -> dict[str, int]:
    """Return where the last run stopped reading, by origin."""
    raw = None if checkpoint is None else checkpoint.meta().get(SOURCE_META)
    return {} if raw is None else msgspec.json.decode(raw, type=dict[str, int])


def position_of(checkpoint: Checkpoint | None, name: str) -> int | None:
    """Return where a sink, or the dead letters, stood at the last commit; None when they were not there."""
    raw = None if checkpoint is None else checkpoint.meta().get(name)
    return None if raw is None else msgspec.json.decode(raw, type=int)
