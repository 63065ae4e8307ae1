"""Fetching: our records come out of the client's batches, instead of the client's own.

Faust and its client would create two objects for each record, and we a third. Batches, checksums, transactions and
positions are the client's.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

from aiokafka.errors import ConsumerStoppedError
from aiokafka.record import default_records, legacy_records
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP

from stream_guard.kafka.poison import GuardedRecords, UnpackBudget
from stream_guard.kafka.unpacking import bound_codecs
from stream_guard.sources.splitting import HEAD
from stream_guard.worker.fetched_records import make_record

for batch_type in (default_records.DefaultRecordBatch, legacy_records.LegacyRecordBatch):
    bound_codecs(sys.modules[batch_type.__module__])  # in Python, or compiled


class FetchingThread(AIOKafkaConsumerThread):
    """The thread of Faust's consumer. Events become our records; changelog rows stay the client's records."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._budget = UnpackBudget()

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
        self._budget.renew()
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
        if not isinstance(fetched._records, GuardedRecords):  # noqa: SLF001  # as above
            fetched._records = GuardedRecords(fetched._records, self._budget)  # noqa: SLF001  # read when it is iterated
        origin, limit, head = f"{tp.topic}/{tp.partition}", consumer.limit, min(HEAD, consumer.limit)
        # The client's loop calls this for each record.
        fetched._consumer_record = lambda _tp, record: make_record(record, origin, limit, head)  # noqa: SLF001  # as Faust does


async def _wait_for_data(fetcher: Any, timeout: float | None) -> None:  # noqa: ASYNC109  # only the waiter is cancelled
    waiter = fetcher._create_fetch_waiter()  # noqa: SLF001  # as the fetcher itself waits
    _, pending = await asyncio.wait([waiter], timeout=timeout)
    for unfinished in pending:
        unfinished.cancel()
