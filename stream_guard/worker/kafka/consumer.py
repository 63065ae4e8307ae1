"""Faust's consumer, with one change: fetched batches go to the stages as they are, one at a time.

Faust would start four tasks for each message and keep messages in a queue, which a rebalance empties. Here the task
that fetches also processes, so that no record is in between when partitions are revoked. Each partition knows its
next offset. When another one comes, for whatever reason, the consumer seeks back to it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from aiokafka.errors import KafkaError
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Transport
from faust.types import TP

from stream_guard.judge.counts import RestoreFigure
from stream_guard.ports import Record
from stream_guard.worker.changelog import FencedError, LoggedRow
from stream_guard.worker.fetched_records import FetchedBatch, TopicPartition
from stream_guard.worker.kafka.fetching import FetchingThread
from stream_guard.worker.kafka.ownership import OwningConsumer
from stream_guard.worker.restoring import RestoreProgress

POLL: Final = 0.5  # seconds that one fetch waits for records
TICK: Final = 1.0  # seconds between two ticks of idle partitions
RESPONSE_BYTES: Final = 16 << 20  # of all partitions in one response; it is in memory three times for a moment
_NO_ROW: Final = b""  # the key of no row

_logger = logging.getLogger(__name__)


def _make_thread(service: AIOKafkaConsumerThread) -> Any:
    """Return a daemon thread: one that waits for a broker must not keep the process alive."""
    thread = AIOKafkaConsumerThread.Worker(service)
    thread.daemon = True
    return thread


class ConsumerThread(FetchingThread):
    """The thread that talks to the broker."""

    Worker: Any = staticmethod(_make_thread)

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


class BatchConsumer(OwningConsumer):
    """Hands whole batches to the stages, and commits the offsets of durable batches."""

    # Set by the app before the consumer starts.
    limit: int  # bytes; a longer record is cut

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._busy = asyncio.Lock()  # held while a batch is processed
        self._sought: dict[TP, int] = {}  # the offset of our last seek, until a record comes
        self._seeks = 0
        self._last_tick = 0.0
        self.handled = 0  # records in all stages; a re-keyed record counts twice
        self.rebalances = 0
        self.progress = RestoreProgress()

    def _new_consumer_thread(self) -> ConsumerThread:
        # The same kind of loop as the running one. Faust would create asyncio's own, which reads more slowly.
        thread_loop = type(asyncio.get_running_loop())()
        return ConsumerThread(self, loop=self.loop, thread_loop=thread_loop, beacon=self.beacon)

    async def _drain_messages(self, fetcher: Any) -> None:
        """Fetch and process until the consumer or the fetcher is stopped. An error ends the worker."""
        try:
            while not (self.should_stop or fetcher.should_stop):
                await self._fetch()
        except self.consumer_stopped_errors:
            if not self.app.should_stop:
                raise
        except Exception as error:  # noqa: BLE001  # whatever it is: nothing may be fetched after it
            self.failure = error

    async def _fetch(self) -> None:
        seeks = self._seeks
        fetched, _ = await self._wait_next_records(POLL)
        await asyncio.sleep(0)
        if fetched is None or self.should_stop:
            return
        if seeks != self._seeks or not self.flow_active:
            self._discard(fetched)
            return
        events: dict[TP, Sequence[Any]] = {}
        for tp, records in fetched.items():
            if self._is_changelog_tp(tp):
                await self._restore(tp, records)
            else:
                events[tp] = records
        # Shielded: a stop must not interrupt a batch half-way; wait_empty waits for it.
        await asyncio.shield(asyncio.ensure_future(self._process(events)))

    def _discard(self, fetched: Mapping[TP, Sequence[Any]]) -> None:
        """Discard records that may have been fetched before a seek, and read their partitions again."""
        for tp in fetched:
            if not self._is_changelog_tp(tp):
                self._discarded.add(tp)
            elif tp in self.assignment():
                self._thread.seek(tp, self._read_offset[tp] or 0)

    async def _restore(self, tp: TP, records: Sequence[Any]) -> None:
        """Load changelog rows into the table, and pass the last one to Faust's recovery.

        Faust would await each row: a minute for a hundred thousand sessions. The recovery needs the last row to find
        out that it is complete.
        """
        tables: Any = self.app.tables  # Faust's interface leaves out the recovery
        recovery, read = tables.recovery, self._read_offset[tp]
        fresh = [record for record in records if read is None or record.offset >= read]
        if not self.flow_active or not fresh or tp not in recovery.active_tps or self._is_owner:
            return  # another recovery begins, and seeks by itself; or the table is ours, and ahead of these rows
        recovery.flush_buffers()  # rows in the buffer are older than these
        self.table.load(tp.partition, (LoggedRow(row.offset, row.key, row.value, row.headers) for row in fresh))
        self.progress.add(len(fresh), recovery.active_remaining_total())
        if len(fresh) > 1:
            recovery.active_offsets[tp] = max(recovery.active_offsets[tp] or 0, fresh[-2].offset)
        # In the recovery this row changes nothing: it is in the table, or does not count.
        last = replace(fresh[-1], key=_NO_ROW, value=None)
        await self.wait_first(self.callback(self._to_message(tp, last)), self.suspend_flow.wait())
        self._read_offset[tp] = last.offset

    async def _process(self, fetched: Mapping[TP, Sequence[Record]]) -> None:
        async with self._busy:
            if not self._is_ready() or self._is_fenced():
                self._discarded.update(fetched)
                return
            try:
                if not self._is_owner:
                    if not await self._become_owner():
                        self._discarded.update(fetched)
                        return
                    owned = [tp.partition for tp in self._changelog_partitions()]
                    self.progress.say_end(sum(len(self.table.recovered(number)) for number in owned))
                await self._process_batch(fetched)
                await self._tick()
                await self._check_topics()
            except FencedError as error:
                self._be_fenced(error)

    async def _process_batch(self, fetched: Mapping[TP, Sequence[Record]]) -> None:
        again = await self._seek_discarded()
        batch = {}
        for tp, records in fetched.items():
            if records and tp not in again and await self._continues(tp, records[0].position):
                batch[TopicPartition(*tp)] = records
        if batch:
            await self.stages.process(batch, self._mark_committable)

    def _mark_committable(self, batch: FetchedBatch) -> None:
        """Allow the commit of a durable batch's offsets."""
        self._committable.update({TP(*source): records[-1].position + 1 for source, records in batch.items()})
        self.handled += sum(map(len, batch.values()))

    async def _seek_discarded(self) -> set[TP]:
        """Seek back on the partitions whose records were discarded, and return them."""
        again = self._discarded & self.assignment()
        self._discarded.clear()
        for tp in again:
            self._seek_to(tp, await self._next_offset(tp))
        return again

    def _seek_to(self, tp: TP, offset: int) -> None:
        self._thread.seek(tp, offset)
        self._sought[tp] = offset

    async def _next_offset(self, tp: TP) -> int:
        """Return the next offset to process: after the last record, or the committed one, or the earliest."""
        offset = self.stages.next_offset(TopicPartition(*tp))
        if offset is None:
            offset = self._committed_offset[tp]
        if offset is None:
            offset = (await self.earliest_offsets(tp))[tp] or 0
        return offset

    async def _continues(self, tp: TP, offset: int) -> bool:
        """Whether an offset is at or below the next one to process; if not, seek to that one.

        After the seek the first offset is accepted, whatever it is: the broker has no records in between.
        """
        expected = await self._next_offset(tp)
        sought = self._sought.pop(tp, None)
        if offset <= expected:
            return True
        if sought == expected:
            _logger.warning("%s/%d: the broker has no records from %d to %d", *tp, expected, offset - 1)
            return True
        _logger.warning("%s/%d: %d came where %d was to come; reading from there again", *tp, offset, expected)
        self._seek_to(tp, expected)
        return False

    async def _tick(self) -> None:
        if time.monotonic() - self._last_tick < TICK:
            return
        self._last_tick = time.monotonic()
        await self._skip_markers()
        lagging = self._lagging()
        self._reread_stalled(lagging)
        # A worker that was frozen or cut off knows of no records since. To it, all partitions look idle.
        known = set[int]()
        if len(lagging) < len(self._event_partitions()) and await self._confirm_ends():
            lagging = self._lagging()
            known = {tp.partition for tp in self._event_partitions()}
        await self.stages.tick(known, [TopicPartition(*tp) for tp in lagging], self.read_until())

    def unready(self) -> list[str]:
        """Return the reasons why the worker is not ready; none when it is."""
        events, lacking, warming = self._event_partitions(), self.lacking(), self.warming()
        reasons = {
            "partitions are being handed out": self.app.rebalancing,
            self.progress.reason(): self._is_recovering(),
            f"states of {len(warming)} partitions are copied before these come here": warming and not events,
            f"the leader of the group does not know {', '.join(lacking)} yet": lacking,
            "no partition is assigned: there are more workers than partitions": not (events or lacking or warming),
        }
        return [reason for reason, holds in reasons.items() if holds]

    def restore(self) -> dict[RestoreFigure, float]:
        """Return how far the states of this assignment are restored."""
        tables: Any = self.app.tables  # Faust's interface leaves out the recovery
        return self.progress.figures(tables.recovery.active_remaining_total() if self._is_recovering() else 0)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Flush, commit, and drop all partitions."""
        self.rebalances += 1
        self.progress = RestoreProgress()
        # Faust does not wait when the worker is being stopped. The next owner would read rows that still change.
        await self._flush()
        await super().on_partitions_revoked(revoked)
        self._committable.clear()
        self._sought.clear()
        self._discarded.clear()
        self._stalled.clear()
        self._end_offsets.clear()
        self._asked.clear()
        self._read_until.clear()
        self._reread_end.clear()
        self._reread_from.clear()
        self._forget_assignment()
        self.stages.drop_partitions()

    async def _flush(self) -> None:
        async with self._busy:
            try:
                await self.stages.flush()
            except FencedError as error:
                self._be_fenced(error)
            except Exception as error:  # noqa: BLE001  # whatever it is: it ends the worker, not the rebalance
                self.failure = error

    @asynccontextmanager
    async def between_batches(self) -> AsyncIterator[None]:
        """Wait until every processed batch is durable, and process none meanwhile."""
        async with self._busy:
            await self.stages.flush()
            yield

    async def wait_empty(self) -> None:
        """Flush, and commit the offsets of durable batches."""
        await self._flush()
        await self.commit_and_end_transactions()

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        return (tp for tp in list(self._committable) if topics is None or tp in topics or tp.topic in topics)

    def _new_offset(self, tp: TP) -> int | None:
        return self._committable.get(tp)

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        """Seek to offsets; records that are being fetched meanwhile are discarded."""
        self._seeks += 1
        await super().seek_wait(partitions)
        self._seeks += 1

    async def perform_seek(self) -> None:
        """Seek to the committed offsets; records that are being fetched meanwhile are discarded."""
        self._seeks += 1
        await super().perform_seek()
        self._seeks += 1


class BatchTransport(Transport):
    """Faust's transport, with our consumer."""

    Consumer = BatchConsumer
