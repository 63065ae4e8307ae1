"""The judge: fetched records in; alerts out and acknowledged, then states written, then offsets let go.

The order is the promise. A state on the broker proves that its alerts are out; an offset that is committed
proves that the states are written. A crash in between repeats alerts with the same ids and loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from stream_guard.alerts import make_alert
from stream_guard.dead_letters import DeadLetters
from stream_guard.engine import Engine
from stream_guard.errors import SinkError
from stream_guard.model import Alert, Finding
from stream_guard.ports import Record, Sink
from stream_guard.settings import Settings
from stream_guard.stream.places import TopicPartition, convert
from stream_guard.stream.store import Change

_PAUSES: Final = (0.1, 0.4, 1.6)  # between tries to deliver, in seconds

_logger = logging.getLogger(__name__)


class Rows(Protocol):
    """The worker's table: what was recovered, and the way to change it."""

    def recovered(self) -> Mapping[bytes, bytes]:
        """Return the rows as they are now."""

    async def write(self, changes: Mapping[int, Sequence[Change]]) -> None:
        """Write changes, by partition and in their order; return when the broker has acknowledged all."""


class Folding(Protocol):
    """One partition of what a judge judges."""

    foreign_keys: int

    def next_offset(self, topic: str) -> int | None:
        """Return the offset that must come next, or None when nothing of the topic was ever judged."""

    def fold(self, topic: str, records: Sequence[Record], out: list[Finding]) -> None:
        """Judge records in the order of their offsets; what was judged before is passed over."""

    def tick(self, grace: float, out: list[Finding]) -> bool:
        """Let it age by the wall clock when nothing comes; True when that changed something."""

    def seal(self) -> list[Change]:
        """Return what has to be written so that everything judged so far is safe."""


Make: TypeAlias = Callable[[int, Mapping[bytes, bytes], Engine], Folding]
"""Makes a partition from its number, the rows of the table, and the engine that judges."""


class Judge:
    """Holds the assigned partitions and takes batches, one at a time."""

    def __init__(
        self,
        *,
        engine: Engine,
        sinks: Mapping[str, Sink],
        dead_letters: DeadLetters,
        rows: Rows,
        settings: Settings,
        observe: Callable[[float], None],
        make: Make,
    ) -> None:
        self._engine = engine
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._rows = rows
        self._settings = settings
        self._observe = observe
        self._make = make
        self._partitions: dict[int, Folding] = {}
        self._warned = False
        self.counts = engine.counts

    def use(self, engine: Engine) -> None:
        """Judge by another policy from the next batch on; states of rules that did not change are kept."""
        self.forget()
        self._engine = engine

    def forget(self) -> None:
        """Let go of all partitions: what they hold is in the table already."""
        self._partitions.clear()
        self.counts.sessions = 0

    def open(self, number: int) -> Folding:
        """Return a partition, made from its rows when it is not at hand."""
        partition = self._partitions.get(number)
        if partition is None:
            partition = self._make(number, self._rows.recovered(), self._engine)
            self._partitions[number] = partition
        return partition

    def next_offset(self, place: TopicPartition) -> int | None:
        """Return the offset that must come next, or None when nothing of the partition was ever judged."""
        return self.open(place.partition).next_offset(place.topic)

    async def judge(self, batch: Mapping[TopicPartition, Sequence[Any]]) -> None:
        """Bring records from the judging of their events to the safety of their states."""
        began = time.perf_counter()
        found: list[Finding] = []
        touched: dict[int, Folding] = {}
        limit = self._settings.decode.max_record_bytes
        for place, fetched in batch.items():
            partition = touched[place.partition] = self.open(place.partition)
            partition.fold(place.topic, convert(place, fetched, limit), found)
        await self._settle(touched, found)
        self._observe(time.perf_counter() - began)

    async def tick(self, numbers: Sequence[int]) -> None:
        """Let partitions age on which everything has been judged and nothing comes."""
        found: list[Finding] = []
        changed = {
            number: partition
            for number, partition in ((number, self.open(number)) for number in numbers)
            if partition.tick(self._settings.worker.idle_grace, found)
        }
        if changed:
            await self._settle(changed, found)

    async def _settle(self, touched: Mapping[int, Folding], found: Sequence[Finding]) -> None:
        version = self._engine.policy.version
        alerts = [make_alert(finding, version) for finding in found if not finding.shadow]
        for name, sink in self._sinks.items():
            await self._deliver(name, sink, alerts)
        await asyncio.to_thread(self._dead_letters.flush)
        await self._rows.write({number: partition.seal() for number, partition in touched.items()})
        self._warn_of_foreign_keys(touched)

    async def _deliver(self, name: str, sink: Sink, alerts: Sequence[Alert]) -> None:
        """Send, and try again where that may help; what cannot be delivered stops the worker."""
        if not alerts:
            return
        for pause in (*_PAUSES, None):
            try:
                await asyncio.to_thread(_send, sink, alerts)
            except SinkError as error:
                if not error.retryable or pause is None:
                    self.counts.alerts[name, "failed" if error.retryable else "rejected"] += len(alerts)
                    raise
                await asyncio.sleep(pause)
            else:
                self.counts.alerts[name, "ok"] += len(alerts)
                return

    def _warn_of_foreign_keys(self, touched: Mapping[int, Folding]) -> None:
        foreign = sum(partition.foreign_keys for partition in touched.values())
        if foreign and not self._warned:
            self._warned = True
            _logger.warning(
                "%d records have a key that is not their session's id: the events of a session may be spread over "
                "partitions and are then judged apart; let producers use the session's id as the key",
                foreign,
            )


def _send(sink: Sink, alerts: Sequence[Alert]) -> None:
    sink.send(alerts)
    sink.flush()
