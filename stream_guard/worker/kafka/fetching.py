"""Fetching: our records come out of the client's batches, instead of the client's own.

Faust and its client would create two objects for each record, and we a third. Batches, checksums, transactions and
positions are the client's.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from aiokafka.errors import ConsumerStoppedError, KafkaError
from aiokafka.record import default_records, legacy_records
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Transport
from faust.types import TP

from stream_guard.kafka.unpacking import GuardedRecords, UnpackBudget, bound_codecs, make_record
from stream_guard.sources.splitting import HEAD

RESPONSE_BYTES: Final = 16 << 20  # of all partitions in one response; it is in memory three times for a moment

for batch_type in (default_records.DefaultRecordBatch, legacy_records.LegacyRecordBatch):
    bound_codecs(sys.modules[batch_type.__module__])  # in Python, or compiled


def _make_thread(service: AIOKafkaConsumerThread) -> Any:
    """Return a daemon thread: one that waits for a broker must not keep the process alive."""
    thread = AIOKafkaConsumerThread.Worker(service)
    thread.daemon = True
    return thread


class ConsumerThread(AIOKafkaConsumerThread):
    """The thread that talks to the broker. Events become our records; changelog rows stay the client's records."""

    Worker: Any = staticmethod(_make_thread)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._budget = UnpackBudget()

    def _create_worker_consumer(self, transport: Transport) -> Any:
        consumer = super()._create_worker_consumer(transport)
        # Faust reads uncommitted records unless it uses transactions itself; an aborted event must not be read.
        consumer._isolation_level = "read_committed"  # noqa: SLF001  # there is no other way to set it
        consumer._fetch_max_bytes = RESPONSE_BYTES  # noqa: SLF001  # as above
        return consumer

    def close(self) -> None:
        """Leave the client to ``on_thread_stop``, which closes it in its own thread.

        Faust calls this when partitions are dealt anew while the worker stops, and would close connections of this
        thread's loop from another thread. That crashes the process.
        """

    async def on_thread_stop(self) -> None:
        """Leave the group; ignore a broker that is away."""
        with suppress(asyncio.CancelledError, KafkaError):
            await super().on_thread_stop()

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
