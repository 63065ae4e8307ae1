"""Fetching: our records are made of the fetched bytes, instead of the client's.

Faust and its client would create two objects for each record, and we a third. Plain batches are read by us, with their
checksums. Any others go the client's way, with its checks and transactions, and only the objects that it creates are
ours. Positions are the client's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from operator import length_hint
from typing import Any

from aiokafka.consumer import fetcher as client
from aiokafka.errors import ConsumerStoppedError
from aiokafka.record.memory_records import MemoryRecords
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP

from stream_guard.ports import Record
from stream_guard.sources.splitting import HEAD
from stream_guard.worker.fetched_records import make_record
from stream_guard.worker.kafka.plain_batches import unpack_plain


class FetchingThread(AIOKafkaConsumerThread):
    """The thread of Faust's consumer. Events become our records; changelog rows stay the client's records."""

    async def _fetch_records(
        self,
        consumer: Any,
        active_partitions: set[TP],
        timeout: float | None = None,  # noqa: ASYNC109  # Faust's signature
        max_records: int | None = None,
    ) -> Mapping[TP, list[Any]]:
        """Return the fetched records of the partitions; none after the timeout."""
        if not self.consumer.flow_active:
            return {}
        fetcher = consumer._fetcher  # noqa: SLF001  # as Faust does
        if consumer._closed or fetcher._closed:  # noqa: SLF001  # as above
            raise ConsumerStoppedError
        subscriptions = fetcher._subscriptions  # noqa: SLF001  # as above
        with subscriptions.fetch_context():
            if subscriptions.reassignment_in_progress:
                await subscriptions.wait_for_assignment()
            if active_partitions.isdisjoint(fetcher._records):  # noqa: SLF001  # as above
                await _wait_for_data(fetcher, timeout)
            if subscriptions.reassignment_in_progress:
                return {}  # the partitions may have another owner now
            # Nothing is awaited from here on: data that arrived in between would become the client's records.
            for tp, result in fetcher._records.items():  # noqa: SLF001  # as above
                self._create_our_records(tp, result)
            fetched: Mapping[TP, list[Any]] = await fetcher.fetched_records(
                active_partitions, timeout=0, max_records=max_records
            )
            return fetched

    def _create_our_records(self, tp: Any, result: Any) -> None:
        """Have a result of the fetcher create our records. An error result has no records, and stays as it is."""
        fetched: Any = getattr(result, "_partition_records", None)
        consumer: Any = self.consumer
        if type(fetched) is not client.PartitionRecords or consumer._is_changelog_tp(TP(*tp)):  # noqa: SLF001  # our own consumer
            return
        origin, limit = f"{tp.topic}/{tp.partition}", consumer.limit
        head, start = min(HEAD, limit), fetched.next_fetch_offset
        kept: KeptRecords = fetched._records  # noqa: SLF001  # as Faust does
        unpacked = unpack_plain(kept.data, start, origin, limit, head) if kept.data else None
        if unpacked is not None:
            result._partition_records = UnpackedRecords(*unpacked, start=start)  # noqa: SLF001  # as above
            fetched._records_iterator = None  # noqa: SLF001  # it would hold the bytes in a circle
            return
        kept.data = b""  # once is enough
        # The client's loop calls this for each record.
        fetched._consumer_record = lambda _tp, record: make_record(record, origin, limit, head)  # noqa: SLF001  # as above


class UnpackedRecords:
    """Records of a partition that the client hands out. It asks how far it is."""

    def __init__(self, records: list[Record], end: int, *, start: int) -> None:
        self._records = records
        self._left = iter(records)
        self._start, self._end = start, end
        self._asked = False

    def __iter__(self) -> Iterator[Record]:
        self._asked = True
        return self._left

    @property
    def next_fetch_offset(self) -> int:
        """The offset behind the last record that was handed out; behind the last batch when none is left."""
        left = length_hint(self._left)
        if not left and self._asked:  # compaction may have left no record at all
            return self._end
        return self._start if left == len(self._records) else self._records[-left - 1].position + 1


class KeptRecords(MemoryRecords):  # type: ignore[misc]  # the client is untyped
    """The client's batches of a partition, with the bytes that they are in."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.data = data


client.MemoryRecords = KeptRecords  # there is no other way to the bytes


async def _wait_for_data(fetcher: Any, timeout: float | None) -> None:  # noqa: ASYNC109  # only the waiter is cancelled
    waiter = fetcher._create_fetch_waiter()  # noqa: SLF001  # as the fetcher itself waits
    _, pending = await asyncio.wait([waiter], timeout=timeout)
    for unfinished in pending:
        unfinished.cancel()
