"""The changelog topic on Kafka, and what Faust's recovery needs to know of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aiokafka import TopicPartition
from faust.stores.memory import Store

from stream_guard.errors import StoreError
from stream_guard.observability.steady_clock import steady_time
from stream_guard.worker.changelog import ChangelogTable, LoggedRow
from stream_guard.worker.store import RowChange


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
        """Write rows. Each batch waits for the one before: the last row proves all others.

        The batches are built here: the client would create a future for each single row.
        """
        written: list[range] = []
        batch, now = self._producer.create_batch(), round(steady_time() * 1000)
        for key, value in changes:
            if batch.append(key=key, value=value, timestamp=now, headers=headers) is None:
                written.append(await self._send(partition, batch))
                batch = self._producer.create_batch()
                batch.append(key=key, value=value, timestamp=now, headers=headers)  # takes a row of any size
        written.append(await self._send(partition, batch))
        return written

    async def _send(self, partition: int, batch: Any) -> range:
        batch.close()
        sent = await (await self._producer.send_batch(batch, self._topic, partition=partition))
        if sent.offset < 0:  # a repeat that the broker knows, but not from where
            raise StoreError(
                f"{self._topic}/{partition}: the broker does not say where rows are; start the worker again"
            )
        return range(sent.offset, sent.offset + batch.record_count())

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
