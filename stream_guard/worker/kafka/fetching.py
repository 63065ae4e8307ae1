"""Fetching from the broker: what comes of the events becomes our records at once.

Faust and its client would make two objects a record, and a third would be ours. The client's own loop over
what was fetched stays as it is, with its checks, transactions and positions; only what it makes is changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka.errors import ConsumerStoppedError
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP

from stream_guard.worker.fetched_records import TopicPartition, reader


class FetchingThread(AIOKafkaConsumerThread):
    """The thread of Faust's consumer, giving out events as our records and rows of the changelog as the client's."""

    async def _fetch_records(
        self,
        consumer: Any,
        active_partitions: set[TP],
        timeout: float | None = None,  # noqa: ASYNC109  # Faust's signature
        max_records: int | None = None,
    ) -> Mapping[TP, list[Any]]:
        """Return what has been fetched of the partitions; nothing when nothing comes in time."""
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
                await _wait(fetcher, timeout)
            if subscriptions.reassignment_in_progress:
                return {}  # whatever there is may not be ours any more
            # From here on nothing is awaited, so that nothing comes in between that would be made differently.
            for place, result in fetcher._records.items():  # noqa: SLF001  # as above
                self._make_ours(place, result)
            fetched: Mapping[TP, list[Any]] = await fetcher.fetched_records(
                active_partitions, timeout=0, max_records=max_records
            )
            return fetched

    def _make_ours(self, place: Any, result: Any) -> None:
        """Have a result of the fetcher make our records; an error is none, and stays."""
        fetched: Any = getattr(result, "_partition_records", None)
        consumer: Any = self.consumer
        if fetched is not None and not consumer._is_changelog_tp(TP(*place)):  # noqa: SLF001  # our own consumer
            fetched._consumer_record = reader(TopicPartition(*place), consumer.limit)  # noqa: SLF001  # asked by its loop for each record


async def _wait(fetcher: Any, timeout: float | None) -> None:  # noqa: ASYNC109  # there is nothing to cancel but a waiter
    waiter = fetcher._create_fetch_waiter()  # noqa: SLF001  # as the fetcher itself waits
    _, pending = await asyncio.wait([waiter], timeout=timeout)
    for unheard in pending:
        unheard.cancel()
