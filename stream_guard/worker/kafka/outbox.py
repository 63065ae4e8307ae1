"""Records on their way to another partition: there only when all before them are, and acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from stream_guard.kafka.writer import Outgoing


class Outbox:
    """Writes to the partitions of one topic, each in order: a batch is sent when the one before is acknowledged.

    So whatever happens, what a partition holds of a batch is its beginning, and never a later record without an
    earlier one. Who reads it can tell repeats by how far the sender had come.
    """

    def __init__(self, producer: Any, topic: str) -> None:
        self._producer = producer
        self.topic = topic

    async def send(self, records: Mapping[int, Sequence[Outgoing]]) -> None:
        """Write everything, by partition; return when the broker has acknowledged all of it."""
        await asyncio.gather(*(self._send(partition, listed) for partition, listed in records.items()))

    async def _send(self, partition: int, records: Sequence[Outgoing]) -> None:
        batch = self._producer.create_batch()
        for key, value, headers in records:
            given = {"key": key, "value": value, "timestamp": None, "headers": list(headers)}
            if batch.append(**given) is None:
                await self._flush(batch, partition)
                batch = self._producer.create_batch()
                batch.append(**given)  # an empty batch takes a record of any size
        if batch.record_count():
            await self._flush(batch, partition)

    async def _flush(self, batch: Any, partition: int) -> None:
        await (await self._producer.send_batch(batch, self.topic, partition=partition))
