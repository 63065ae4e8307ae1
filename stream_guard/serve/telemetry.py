"""Telemetry beside the gate: exports that a receiver takes in are judged as recorded events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event as Flag
from threading import Thread
from typing import Final, TypeVar

from stream_guard.commit import HeldLetters
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.reader import EventReader
from stream_guard.errors import StreamGuardError
from stream_guard.judge.model import Event
from stream_guard.judge.ports import DECODER_ROWS, PROGRESS_ROWS, DecoderMemory, Store
from stream_guard.ports import Decoder, Record
from stream_guard.serve.service import EVENTS_AT_ONCE, Service
from stream_guard.sources.otlp import OtlpSource
from stream_guard.storage.stores import CheckpointStore, MemoryStore

_PAUSE: Final = 0.2  # seconds between two looks at an empty spool
_LONGEST_PAUSE: Final = 30.0  # seconds between two tries
_RETRYABLE: Final = (StreamGuardError, OSError)  # a history that is locked, a disk that is full
_OBSTACLE: Final = "telemetry"

Done = TypeVar("Done")

_logger = logging.getLogger(__name__)


class _StoppedError(Exception):
    """The server ends while something is tried again; the next start does it."""


class TelemetryFeed:
    """Reads a receiver's exports in a thread of its own, and lets the gate judge their events.

    How far the spool is judged, and what spans wait for, is stored in the same commit as the sessions. Where these have
    no file of their own, it is stored beside the spool, after the sessions: an export may come twice then, under the
    same ids. What cannot be judged now is tried again, and meanwhile the spool takes in what it has room for. An export
    that cannot be judged at all is a dead letter.
    """

    def __init__(
        self, source: OtlpSource, decoder: Decoder, letters: DeadLetters, service: Service, stop: Flag
    ) -> None:
        self._source, self._service, self._stop = source, service, stop
        service.gate.keep_letters(letters)
        self._letters = HeldLetters()
        store = service.gate.guard.own_store
        self._beside = CheckpointStore(source.folder / "judged.db") if store is None else None
        store = store or self._beside
        assert store is not None  # noqa: S101  # one of the two
        self._row = PROGRESS_ROWS + source.name
        source.seek(int(store.get(self._row) or b"0"))
        # A copy in memory: the decoder must not read while the gate writes.
        self._changed: dict[str, tuple[bytes, float] | None] = {}
        self._memory = DecoderMemory(_copy_decoder_rows(store), service.gate.guard.counts, changed=self._changed)
        self._reader = EventReader(decoder, self._letters, self._memory)
        self._records = iter(source)
        self._thread = Thread(target=self._run, name="stream_guard-telemetry", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Judge what is being judged, and stop."""
        self._stop.set()
        self._thread.join()
        if self._beside is not None:
            self._beside.close()

    def _run(self) -> None:
        try:
            with suppress(_StoppedError):
                while True:
                    record = self._until_done(self._next)
                    self._judge(record, self._read(record))
                    if record is None and self._stop.is_set():
                        return  # nothing more is there
        finally:
            self._source.close()

    def _next(self) -> Record | None:
        try:
            return next(self._records)
        except BaseException:
            self._records = iter(self._source)
            raise

    def _read(self, record: Record | None) -> Sequence[Event]:
        try:
            return self._reader.elapse(_PAUSE) if record is None else self._reader.read(record)
        except Exception as error:  # noqa: BLE001  # of a plugin; one export must not end all
            self._give_up(record, error)
            return ()

    def _judge(self, record: Record | None, events: Sequence[Event]) -> None:
        """Judge events, a few at a time: a check need not wait for a whole export."""
        if record is None and not events and not self._changed:
            return
        starts = range(0, len(events), EVENTS_AT_ONCE)
        for start in starts[:-1]:
            self._observe(record, events[start : start + EVENTS_AT_ONCE])
        last = events[starts[-1] :] if starts else ()
        if self._beside is None:
            self._observe(record, last, self._put_progress)
            return
        self._observe(record, last)
        beside = self._beside
        self._put_progress(beside)
        self._until_done(lambda: beside.commit({}))

    def _observe(
        self, record: Record | None, events: Sequence[Event], progress: Callable[[Store], None] | None = None
    ) -> None:
        def observe(events: Sequence[Event]) -> None:
            gate, letters = self._service.gate, self._letters.held
            self._service.submit(lambda: gate.observe(*events, progress=progress, letters=letters)).result()
            self._letters.take()

        try:
            self._until_done(lambda: observe(events))
        except _StoppedError:
            raise
        except Exception as error:  # noqa: BLE001  # as in reading
            self._give_up(record, error)
            self._until_done(lambda: observe(()), Exception)

    def _put_progress(self, store: Store) -> None:
        for name, found in self._changed.items():
            if found is None:
                store.drop(name)
            else:
                store.put(name, *found)
        self._memory.flush()
        store.put(self._row, str(self._source.position).encode(), None)

    def _give_up(self, record: Record | None, error: Exception) -> None:
        _logger.error("telemetry cannot be judged, and is a dead letter", exc_info=error)
        if record is not None:
            self._letters.add(record, f"it cannot be judged: {type(error).__name__}")

    def _until_done(
        self, work: Callable[[], Done], passing: type[Exception] | tuple[type[Exception], ...] = _RETRYABLE
    ) -> Done:
        """Do some work, with longer and longer pauses until it succeeds."""
        pause, obstacles = _PAUSE, self._service.obstacles
        while True:
            try:
                done = work()
            except passing as error:
                if _OBSTACLE not in obstacles:
                    _logger.error("telemetry waits in the spool and is tried again: %s", error)  # noqa: TRY400  (it says why)
                obstacles.add(_OBSTACLE)
                if self._stop.wait(pause):
                    raise _StoppedError from error
                pause = min(_LONGEST_PAUSE, 2 * pause)
            else:
                if _OBSTACLE in obstacles:
                    obstacles.discard(_OBSTACLE)
                    _logger.warning("telemetry is judged again")
                return done


def _copy_decoder_rows(store: CheckpointStore) -> MemoryStore:
    copy = MemoryStore()
    for name, at in store.deadlines():
        if name.startswith(DECODER_ROWS) and (blob := store.get(name)) is not None:
            copy.put(name, blob, at)
    return copy
