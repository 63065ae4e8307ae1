"""The embedded runner: the whole pipeline in one process, no broker needed.

The order of a commit is the promise: alerts out and durable, dead letters durable, then, in one
transaction, the sessions' states and how far the input was read. Killed at any moment, the next run
repeats at most what came after the last commit, and repeats it with the same alert ids.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from stream_guard.alerts import make_alert
from stream_guard.counts import Counts
from stream_guard.errors import SinkError
from stream_guard.model import Alert, Finding
from stream_guard.pipeline import Pipeline
from stream_guard.ports import Record, Sink, Source
from stream_guard.sessions.table import SessionTable

CHUNK: Final = 500
COMMIT_RECORDS: Final = 5_000
COMMIT_SECONDS: Final = 1.0
_PAUSES: Final = (0.1, 0.4, 1.6)  # between tries to deliver, in seconds

SINK_META: Final = "sink:"
SOURCE_META: Final = "source"
CLOCK_META: Final = "watermark"


class Checkpoint(Protocol):
    """Where progress is written down; a run without one starts from the beginning each time."""

    def commit(self, meta: Mapping[str, bytes]) -> None:
        """Write everything that was put, and the meta data, in one transaction."""

    def meta(self) -> Mapping[str, bytes]:
        """Return the meta data of the last commit."""


class Buried(Protocol):
    """The dead letters, as far as a commit is concerned."""

    def flush(self) -> object:
        """Make what was buried durable."""


class EmbeddedRunner:
    """Reads a source to its end, or until it is stopped; sends alerts; remembers how far it came."""

    def __init__(
        self,
        *,
        source: Source,
        pipeline: Pipeline,
        table: SessionTable,
        sinks: Mapping[str, Sink],
        dead_letters: Buried,
        counts: Counts,
        checkpoint: Checkpoint | None = None,
        after_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._pipeline = pipeline
        self._table = table
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._counts = counts
        self._checkpoint = checkpoint
        self._after_commit = after_commit
        self._found: list[Finding] = []
        if checkpoint is not None and (clock := checkpoint.meta().get(CLOCK_META)) is not None:
            table.watermark = float(clock)

    def run(self, *, ends: Callable[[], bool] = lambda: True) -> None:
        """Judge everything the source gives; ``ends`` says whether its end is the end of all sessions."""
        pending, last = 0, time.monotonic()
        for chunk, quiet in _chunks(self._source):
            self._pipeline.run(chunk, self._found)
            pending += len(chunk)
            if (quiet and pending) or pending >= COMMIT_RECORDS or time.monotonic() - last >= COMMIT_SECONDS:
                self.commit()
                pending, last = 0, time.monotonic()
        if ends():
            self._table.end_all(self._found)
        self.commit()

    def commit(self) -> None:
        """Bring everything so far to safety, in the order that loses nothing."""
        version = self._table.engine.policy.version
        alerts = [make_alert(finding, version) for finding in self._found if not finding.shadow]
        for name, sink in self._sinks.items():
            self._deliver(name, sink, alerts)
        self._found.clear()
        meta = {f"{SINK_META}{name}": msgspec.json.encode(sink.flush()) for name, sink in self._sinks.items()}
        meta[SOURCE_META] = msgspec.json.encode(dict(self._source.positions()))
        meta[CLOCK_META] = repr(self._table.watermark).encode()
        self._dead_letters.flush()
        if self._checkpoint is not None:
            self._table.commit()
            self._checkpoint.commit(meta)
        else:
            self._table.relieve()
        self._after_commit()

    def _deliver(self, name: str, sink: Sink, alerts: Sequence[Alert]) -> None:
        """Send, and try again where that may help; what cannot be delivered stops the run before the commit."""
        if not alerts:
            return
        for pause in (*_PAUSES, None):
            try:
                sink.send(alerts)
            except SinkError as error:
                if not error.retryable or pause is None:
                    self._counts.alerts[name, "rejected" if not error.retryable else "failed"] += len(alerts)
                    raise
                time.sleep(pause)
            else:
                self._counts.alerts[name, "ok"] += len(alerts)
                return


def _chunks(source: Source) -> Iterator[tuple[list[Record], bool]]:
    """Yield the records in handfuls; the flag says that nothing more is there right now."""
    chunk: list[Record] = []
    for record in source:
        if record is None:
            yield chunk, True
            chunk = []
            continue
        chunk.append(record)
        if len(chunk) >= CHUNK:
            yield chunk, False
            chunk = []
    yield chunk, True


def source_positions(checkpoint: Checkpoint) -> dict[str, int]:
    """Return where the last run stopped reading, by origin."""
    raw = checkpoint.meta().get(SOURCE_META)
    return {} if raw is None else msgspec.json.decode(raw, type=dict[str, int])


def sink_position(checkpoint: Checkpoint, name: str) -> int | None:
    """Return where a sink stood at the last commit, or None when it was not there."""
    raw = checkpoint.meta().get(f"{SINK_META}{name}")
    return None if raw is None else msgspec.json.decode(raw, type=int)
