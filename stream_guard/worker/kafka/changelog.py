"""The changelog topic on Kafka, and the rows in the memory of Faust's table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiokafka import TopicPartition

from stream_guard.errors import StoreError
from stream_guard.worker.changelog import LoggedRow
from stream_guard.worker.store import RowChange


class TableStore:
    """The memory of Faust's table. Each row names its partition: Faust would take it from the current event."""

    def __init__(self, table: Any) -> None:
        self._store = table.data  # Faust's interface leaves out what is used here

    def rows(self) -> Mapping[bytes, bytes]:
        """Return the current rows of all partitions."""
        rows: Mapping[bytes, bytes] = self._store.data
        return rows

    def set(self, partition: int, key: bytes, value: bytes | None) -> None:
        """Set a row; None deletes it."""
        store = self._store
        if value is None:
            store.data.pop(key, None)
            store._key_partition.pop(key, None)  # noqa: SLF001  # where Faust finds the rows of a revoked partition
        else:
            store.data[key] = value
            store._key_partition[key] = partition  # noqa: SLF001  # as above


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
        batch = self._producer.create_batch()
        for key, value in changes:
            if batch.append(key=key, value=value, timestamp=None, headers=headers) is None:
                written.append(await self._send(partition, batch))
                batch = self._producer.create_batch()
                batch.append(key=key, value=value, timestamp=None, headers=headers)  # takes a row of any size
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
