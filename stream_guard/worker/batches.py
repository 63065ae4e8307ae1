"""The judge: fetched records in; alerts out and acknowledged, then states written, then offsets let go.

The order is the promise. A state on the broker proves that its alerts are out; an offset that is committed
proves that the states are written. A crash in between repeats alerts with the same ids and loses nothing.
While the broker is waited for, the next batch is judged already; it is sealed when the one before is safe.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from stream_guard.alerting.delivery import alerts_of
from stream_guard.decoding.reader import DeadLetterSink
from stream_guard.engine import Engine
from stream_guard.model import Finding
from stream_guard.ports import Record
from stream_guard.settings import Settings
from stream_guard.worker.delivery import Delivery, PendingDeadLetters
from stream_guard.worker.fetched_records import Batch, TopicPartition
from stream_guard.worker.store import Change

_SLICE: Final = 250  # records judged in one go; in between, answers of the broker are heard

_logger = logging.getLogger(__name__)


class Rows(Protocol):
    """The worker's table: what was recovered, and the way to change it."""

    def recovered(self) -> Mapping[bytes, bytes]:
        """Return the rows as they are now."""

    async def write(self, changes: Mapping[int, Sequence[Change]]) -> None:
        """Write changes, by partition and in their order; return when the broker has acknowledged all."""


class PartitionFold(Protocol):
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


Make: TypeAlias = Callable[[int, Mapping[bytes, bytes], Engine, DeadLetterSink], PartitionFold]
"""Makes a partition from its number, the rows of the table, the engine that judges, and who takes what it cannot."""


class BatchProcessor:
    """Holds the assigned partitions and takes batches: one is judged while the one before is settled."""

    def __init__(
        self,
        *,
        engine: Engine,
        delivery: Delivery,
        rows: Rows,
        settings: Settings,
        observe: Callable[[float, int], None],
        make: Make,
    ) -> None:
        self._engine = engine
        self._delivery = delivery
        self._rows = rows
        self._settings = settings
        self._observe = observe
        self._make = make
        self._partitions: dict[int, PartitionFold] = {}
        self._buried = PendingDeadLetters()
        self._settling: asyncio.Future[None] | None = None
        self._warned = False
        self.counts = engine.counts

    def use(self, engine: Engine) -> None:
        """Judge by another policy from the next batch on; states of rules that did not change are kept.

        Whoever calls this has awaited ``finish``.
        """
        self.forget()
        self._engine = engine

    def forget(self) -> None:
        """Let go of all partitions: what they hold is in the table already, once ``finish`` has been awaited."""
        self._partitions.clear()
        self.counts.sessions = 0

    def open(self, number: int) -> PartitionFold:
        """Return a partition, made from its rows when it is not at hand."""
        partition = self._partitions.get(number)
        if partition is None:
            partition = self._make(number, self._rows.recovered(), self._engine, self._buried)
            self._partitions[number] = partition
        return partition

    def next_offset(self, place: TopicPartition) -> int | None:
        """Return the offset that must come next, or None when nothing of the partition was ever judged."""
        return self.open(place.partition).next_offset(place.topic)

    async def judge(self, batch: Batch, settled: Callable[[Batch], None]) -> None:
        """Judge records and begin to settle them; ``settled`` is called when alerts, letters and states are safe.

        Returns as soon as the batch before is settled. What went wrong there is raised here, or by ``finish``.
        """
        began, found = time.perf_counter(), list[Finding]()
        touched: dict[int, PartitionFold] = {}
        for place, records in batch.items():
            partition = touched[place.partition] = self.open(place.partition)
            for start in range(0, len(records), _SLICE):
                partition.fold(place.topic, records[start : start + _SLICE], found)
                await asyncio.sleep(0)

        def done() -> None:
            settled(batch)
            self._observe(time.perf_counter() - began, sum(map(len, batch.values())))

        await self._seal(touched, found, done)
        self._warn_of_foreign_keys(touched)

    async def tick(self, numbers: Sequence[int]) -> None:
        """Let partitions age on which everything has been judged and nothing comes."""
        await self.finish()
        found: list[Finding] = []
        changed = {
            number: partition
            for number, partition in ((number, self.open(number)) for number in numbers)
            if partition.tick(self._settings.worker.idle_grace, found)
        }
        if changed:
            await self._seal(changed, found, lambda: None)

    async def finish(self) -> None:
        """Wait until everything that was judged is settled; raise what kept it from being so."""
        if self._settling is not None:
            await asyncio.shield(self._settling)

    async def _seal(
        self, touched: Mapping[int, PartitionFold], found: Sequence[Finding], done: Callable[[], None]
    ) -> None:
        await self.finish()  # a partition's rows must be in the table before the next ones are made
        version = self._engine.policy.version
        alerts = alerts_of(found, version)
        send_ahead = self._gather(touched)
        changes = {number: partition.seal() for number, partition in touched.items()}
        buried = self._buried.take()

        async def settle() -> None:
            await send_ahead()
            await self._delivery.send(alerts, buried)
            await self._rows.write(changes)
            done()

        self._settling = asyncio.ensure_future(settle())

    def _gather(self, touched: Mapping[int, PartitionFold]) -> Callable[[], Awaitable[None]]:
        """Return what has to be done before anything else of a batch is; looked at before partitions are sealed."""
        del touched
        return _nothing

    def _warn_of_foreign_keys(self, touched: Mapping[int, PartitionFold]) -> None:
        foreign = sum(partition.foreign_keys for partition in touched.values())
        if foreign and not self._warned:
            self._warned = True
            _logger.warning(
                "%d records have a key that is not their session's id: the events of a session may be spread over "
                "partitions and are then judged apart; let producers use the session's id as the key",
                foreign,
            )


async def _nothing() -> None:
    """Stand in for what a judge has nothing of."""
