"""The changelog topic on Kafka, and what Faust's recovery needs to know of the rows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from faust.stores.memory import Store

from stream_guard.errors import StoreError
from stream_guard.worker.changelog import ChangelogTable, LoggedRow
from stream_guard.worker.kafka.topics import send_in_order
from stream_guard.worker.rows import RowChange


class TableStore(Store[bytes, bytes]):
    """What Faust's recovery knows of our rows: how far each partition was read. It holds none itself."""

    rows: ChangelogTable  # set by ``open_table``, before the app starts

    def persisted_offset(self, tp: Any) -> int:
        """Return the offset of the last row that is in the table, -1 when there is none."""
        return self.rows.end(tp.partition) - 1

    def apply_changelog_batch(self, *_: Any, **__: Any) -> None:
        """Do nothing: the consumer has loaded these rows."""

    async def on_recovery_completed(self, *_: Any, **__: Any) -> None:
        """Do nothing: rows of partitions that others own are copies."""


class KafkaChangelog:
    """Rows in the order of the changelog's offsets."""

    def __init__(self, topic: str, producer: Any, make_consumer: Callable[[], Any]) -> None:
        self._topic = topic
        self._producer = producer
        self._make_consumer = make_consumer

    async def append(
        self, partition: int, changes: Sequence[RowChange], headers: Sequence[tuple[str, bytes]]
    ) -> list[range]:
        """Write rows in their order; return the offsets of each batch."""
        rows = ((key, value, headers) for key, value in changes)
        written = await send_in_order(self._producer, self._topic, partition, rows)
        if any(offsets.start < 0 for offsets in written):  # a repeat that the broker knows, but not from where
            raise StoreError(
                f"{self._topic}/{partition}: the broker does not say where rows are; start the worker again"
            )
        return written

    async def read(self, partition: int, start: int, stop: int) -> list[LoggedRow]:
        """Return the rows between two offsets, with a client of its own: there are such rows after a fault only."""
        consumer, source, found = self._make_consumer(), TopicPartition(self._topic, partition), list[LoggedRow]()
        await consumer.start()
        try:
            consumer.assign([source])
            consumer.seek(source, start)
            while await consumer.position(source) < stop:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    found += [
                        LoggedRow(record.offset, record.key, record.value, record.headers)
                        for record in records
                        if record.offset < stop
                    ]
        finally:
            await consumer.stop()
        return found


# Following: copies of the states of partitions that others own, read from the changelog as it grows.
#
# With a client of its own, beside the group: nothing that happens to a copy may disturb what this worker owns.

POLL_MS: Final = 500  # how long one request waits for rows
MOST_ROWS: Final = 2000  # of one turn: evaluation goes on in between
PAUSE: Final = 2.0  # seconds before a client is made anew after an error

_logger = logging.getLogger(__name__)


class ChangelogFollower:
    """Keeps the copies of the partitions that it is told to follow. An error ends no worker: it is tried again."""

    def __init__(self, topic: str, table: ChangelogTable, make_consumer: Callable[[], Any]) -> None:
        self._topic = topic
        self._table = table
        self._make_consumer = make_consumer
        self._followed: frozenset[int] = frozenset()
        self._reached: dict[int, int] = {}  # where each copy ended when this follower was last at it
        self._answered: dict[TopicPartition, int] = {}  # when a broker last said where a partition ends
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def followed(self) -> frozenset[int]:
        """The partitions whose copies are kept."""
        return self._followed

    def follow(self, partitions: Collection[int]) -> None:
        """Follow these partitions from now on, and no others. No row of another one is loaded after this call."""
        if self._followed == frozenset(partitions):
            return
        self._followed = frozenset(partitions)
        self._changed.set()
        if self._task is None and self._followed:
            self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Follow nothing more."""
        self._followed = frozenset()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            consumer = self._make_consumer()
            try:
                await consumer.start()
                await self._follow_with(consumer)
            except KafkaError as error:
                _logger.info("copies of states are not kept up: %r; trying again", error)
                self._changed.set()
                await asyncio.sleep(PAUSE)
            finally:
                with suppress(KafkaError):
                    await consumer.stop()

    async def _follow_with(self, consumer: Any) -> None:
        """Follow with a client, until there is nothing to follow."""
        self._changed.set()
        while True:
            if self._changed.is_set():
                self._changed.clear()
                if not self._followed:
                    return
                await self._begin(consumer)
            try:
                fetched = await consumer.getmany(timeout_ms=POLL_MS, max_records=MOST_ROWS)
            except OffsetOutOfRangeError as error:  # the topic was made anew, or lost rows
                self._begin_anew(partition.partition for partition in error.args[0])
                continue
            if not self._changed.is_set():
                await self._load(consumer, fetched)
            await asyncio.sleep(0)

    async def _begin(self, consumer: Any) -> None:
        """Read each partition on from where its copy ends."""
        partitions = [TopicPartition(self._topic, number) for number in sorted(self._followed)]
        consumer.assign(partitions)
        new = [partition for partition in partitions if not self._table.end(partition.partition)]
        if new:
            await consumer.seek_to_beginning(*new)
        for partition in partitions:
            if partition not in new:
                consumer.seek(partition, self._table.end(partition.partition))
        self._note_reached()

    def _note_reached(self) -> None:
        self._reached = {number: self._table.end(number) for number in self._followed}

    async def _load(self, consumer: Any, fetched: Mapping[TopicPartition, Sequence[Any]]) -> None:
        """Load what was fetched, and take note of the copies that are complete."""
        lost = [number for number in self._followed if self._table.has_lost_touch(number)]
        if lost:  # frozen for so long that rows which were deleted meanwhile would stay
            self._begin_anew(lost)
            return
        if any(self._table.end(number) != end for number, end in self._reached.items()):
            self._changed.set()  # the rows of a copy were forgotten, or read by its owner, who was this worker
            return
        for partition, rows in fetched.items():
            if partition.partition in self._followed:
                self._table.load(
                    partition.partition, (LoggedRow(row.offset, row.key, row.value, row.headers) for row in rows)
                )
        for number in self._followed:
            await self._look_at_end(consumer, TopicPartition(self._topic, number))
        self._note_reached()

    async def _look_at_end(self, consumer: Any, partition: TopicPartition) -> None:
        answered = consumer.last_poll_timestamp(partition)
        if answered is None or answered == self._answered.get(partition):
            return  # without a new answer, nothing is known of now
        self._answered[partition] = answered
        # Not the offset after the last row: compaction may have removed the last ones.
        position, end = await consumer.position(partition), consumer.highwater(partition)
        if position >= end and partition.partition in self._followed:
            self._table.note_complete(partition.partition, position)

    def _begin_anew(self, partitions: Iterable[int]) -> None:
        for number in partitions:
            self._table.forget(number)
        self._changed.set()
