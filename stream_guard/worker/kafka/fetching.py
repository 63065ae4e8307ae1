"""Fetching: our records are made of the fetched bytes, instead of the client's.

Faust and its client would create two objects for each record, and we a third. Plain batches are read by us, with their
checksums. Any others go the client's way, with its checks and transactions, and only the objects that it creates are
ours. Positions are the client's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from weakref import ref

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
        """Have a result of the fetcher hand out our records. An error result has no records, and stays as it is."""
        fetched: Any = getattr(result, "_partition_records", None)
        consumer: Any = self.consumer
        if fetched is None or consumer._is_changelog_tp(TP(*tp)):  # noqa: SLF001  # our own consumer
            return
        if type(fetched) is client.PartitionRecords and fetched._records.data:  # noqa: SLF001  # as Faust does
            result.getall = FetchedRecords(result, f"{tp.topic}/{tp.partition}", consumer.limit).hand_out


class FetchedRecords:
    """Our records of a fetched partition. They are made when the client first asks its result for records."""

    def __init__(self, result: Any, origin: str, limit: int) -> None:
        self._result = ref(result)  # which holds this
        self._origin, self._limit, self._head = origin, limit, min(HEAD, limit)
        self._records: list[Record] = []
        self._at = 0  # the number of those that are handed out
        self._end = 0  # the offset behind the last batch
        self.next_fetch_offset = 0  # asked for by the client

    def hand_out(self, max_records: int | None = None) -> list[Any]:
        """Return the next records, and move the client's position behind them."""
        result: Any = self._result()
        if not result.check_assignment(result._topic_partition):  # noqa: SLF001  # as the result itself does
            return []
        if result._partition_records is not self and not self._unpack(result):  # noqa: SLF001  # as above
            del result.getall  # which was this
            theirs: list[Any] = result.getall(max_records)
            return theirs
        most = len(self._records) if max_records is None else max_records
        taken = self._records[self._at : self._at + most]
        self._at += len(taken)
        is_last = self._at == len(self._records)
        self.next_fetch_offset = self._end if is_last else taken[-1].position + 1
        result._update_position()  # noqa: SLF001  # as above
        if is_last:
            result._partition_records = None  # noqa: SLF001  # as above
        return taken

    def _unpack(self, result: Any) -> bool:
        """Make all records, in place of the client's; False when the client has to read them."""
        fetched = result._partition_records  # noqa: SLF001  # as above
        kept: KeptRecords = fetched._records  # noqa: SLF001  # as above
        origin, limit, head = self._origin, self._limit, self._head
        unpacked = unpack_plain(kept.data, fetched.next_fetch_offset, origin, limit, head)
        if unpacked is None:
            kept.data = b""  # once is enough
            # The client's loop calls this for each record.
            fetched._consumer_record = lambda _tp, record: make_record(record, origin, limit, head)  # noqa: SLF001  # as above
            return False
        self._records, self._end = unpacked
        fetched._records_iterator = None  # noqa: SLF001  # it would hold the bytes in a circle
        result._partition_records = self  # noqa: SLF001  # as above
        return True


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
