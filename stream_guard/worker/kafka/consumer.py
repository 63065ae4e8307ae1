"""Faust's consumer, with one thing changed: what was fetched goes to the judge as it is, batch by batch.

Faust would start four tasks a message and let the messages wait in a queue, which a rebalance empties. Here
the task that fetches also judges, so nothing is on its way when partitions are taken. Each partition knows
the offset it must be given next; whatever comes instead, for whatever reason, makes it go back there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from aiokafka.errors import KafkaError
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Transport
from faust.types import TP

from stream_guard.errors import SettingsError
from stream_guard.ports import Record
from stream_guard.worker.epoch import EpochFence
from stream_guard.worker.fetched_records import Batch, TopicPartition
from stream_guard.worker.kafka.fetching import FetchingThread
from stream_guard.worker.kafka.lag import LagConsumer
from stream_guard.worker.rows import owner_key

POLL: Final = 0.5  # seconds that one look waits for something to come
TICK: Final = 1.0  # seconds between two looks at partitions on which nothing comes

_logger = logging.getLogger(__name__)


def _make_thread(service: AIOKafkaConsumerThread) -> Any:
    """Return a thread that does not keep the process: one that waits for a broker would keep it for ever."""
    thread = AIOKafkaConsumerThread.Worker(service)
    thread.daemon = True
    return thread


class ConsumerThread(FetchingThread):
    """The thread that talks to the broker."""

    Worker: Any = staticmethod(_make_thread)

    def _create_worker_consumer(self, transport: Transport) -> Any:
        consumer = super()._create_worker_consumer(transport)
        # Faust reads what was not committed unless it uses transactions itself; an aborted event never happened.
        consumer._isolation_level = "read_committed"  # noqa: SLF001  # there is no other way to say it
        return consumer

    async def on_thread_stop(self) -> None:
        """Leave the group; where the broker is away, without it and without a word."""
        with suppress(asyncio.CancelledError, KafkaError):
            await super().on_thread_stop()


class BatchConsumer(LagConsumer):
    """Hands whole batches to the judge and commits what it has settled."""

    limit: int  # bytes of a record that are read; given by the app before the consumer starts
    fence: EpochFence  # likewise
    claim: Callable[[Iterable[int]], Awaitable[None]]  # likewise: makes us the owner of partitions
    put_back: Callable[[Iterable[Any]], None]  # likewise: takes rows that were read into the table

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._busy = asyncio.Lock()  # held while a batch is judged
        self._sought: dict[TP, int] = {}  # where we went back to, and no record has come from there yet
        self._claimed = False  # whether we are the owner of what is assigned
        self._seeks = 0
        self._ticked = 0.0
        self.handled = 0  # records in all, those that were passed on included

    def _new_consumer_thread(self) -> ConsumerThread:
        # A loop of the same make as the one we run in: Faust would make a plain one, which is slower at reading.
        made = type(asyncio.get_running_loop())()
        return ConsumerThread(self, loop=self.loop, thread_loop=made, beacon=self.beacon)

    async def _drain_messages(self, fetcher: Any) -> None:
        """Fetch and judge until one of the two services is stopped; an error ends it for good."""
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
            self._go_back(fetched)
            return
        mine: dict[TP, Sequence[Any]] = {}
        for place, records in fetched.items():
            if self._is_changelog_tp(place):
                await self._restore(place, records)
            else:
                mine[place] = records
        # Shielded: being stopped must not leave a batch half written; wait_empty waits for it.
        await asyncio.shield(asyncio.ensure_future(self._judge(mine)))

    def _go_back(self, fetched: Mapping[TP, Sequence[Any]]) -> None:
        """Drop what may have been fetched before somebody went elsewhere, and have it given again."""
        for place in fetched:
            if not self._is_changelog_tp(place):
                self._dropped.add(place)
            elif place in self.assignment():
                self._thread.seek(place, self._read_offset[place] or 0)

    async def _restore(self, place: TP, records: Sequence[Any]) -> None:
        """Put rows of the changelog into the table, and let the recovery know by the last of them.

        Faust would wait for every row by itself: a minute for a hundred thousand sessions. The last one goes its way
        all the same, for that is how the recovery finds out that it is over.
        """
        tables: Any = self.app.tables  # its interface leaves out the recovery
        recovery, read = tables.recovery, self._read_offset[place]
        fresh = [record for record in records if read is None or record.offset >= read]
        if not self.flow_active or not fresh or place not in recovery.active_tps:
            return  # another recovery begins, and goes to its own place
        recovery.flush_buffers()  # what it holds back is older than these
        rows = [self._fenced(record) for record in fresh]
        self.put_back(rows)
        if len(rows) > 1:
            recovery.active_offsets[place] = max(recovery.active_offsets[place] or 0, rows[-2].offset)
        await self.wait_first(self.callback(self._to_message(place, rows[-1])), self.suspend_flow.wait())
        self._read_offset[place] = rows[-1].offset

    def _fenced(self, record: Any) -> Any:
        """Return a row, or, where it is of a worker that was not the owner any more, one that changes nothing."""
        if self.fence.admits(record.partition, record.offset, record.key, record.headers):
            return record
        return replace(record, key=owner_key(record.partition), value=None)

    async def _judge(self, fetched: Mapping[TP, Sequence[Record]]) -> None:
        async with self._busy:
            if not self._is_ready():
                self._dropped.update(fetched)
                return
            if not self._claimed:
                await self.claim(sorted({place.partition for place in self._places()}))
                self._claimed = True
            again = await self._read_again()
            batch = {}
            for place, records in fetched.items():
                if records and place not in again and await self._continues(place, records[0].position):
                    batch[TopicPartition(*place)] = records
            if batch:
                await self.judge.judge(batch, self._note)
            await self._tick()

    def _note(self, batch: Batch) -> None:
        """Hear that a batch is settled."""
        self._settled.update({TP(*place): records[-1].position + 1 for place, records in batch.items()})
        self.handled += sum(map(len, batch.values()))

    async def _read_again(self) -> set[TP]:
        """Go back on the partitions whose records were dropped, and return them."""
        again = self._dropped & self.assignment()
        self._dropped.clear()
        for place in again:
            self._seek_to(place, await self._expected(place))
        return again

    def _seek_to(self, place: TP, offset: int) -> None:
        self._thread.seek(place, offset)
        self._sought[place] = offset

    async def _expected(self, place: TP) -> int:
        """Return the offset that must come next; where nothing was judged yet, the one to begin with."""
        following = self.judge.next_offset(TopicPartition(*place))
        if following is None:
            following = self._committed_offset[place]
        if following is None:
            following = (await self.earliest_offsets(place))[place] or 0
        return following

    async def _continues(self, place: TP, offset: int) -> bool:
        """Whether an offset is the one to come; if not, go to that one.

        What comes from there is taken as it is: the offsets in between belong to no record any more.
        """
        expected = await self._expected(place)
        sought = self._sought.pop(place, None)
        if offset <= expected:
            return True
        if sought == expected:
            _logger.warning("%s/%d: the broker has no records from %d to %d", *place, expected, offset - 1)
            return True
        _logger.warning("%s/%d: %d came where %d was to come; reading from there again", *place, offset, expected)
        self._seek_to(place, expected)
        return False

    async def _tick(self) -> None:
        if time.monotonic() - self._ticked < TICK:
            return
        self._ticked = time.monotonic()
        await self._pass_marks()
        lagging = [place for place in self._places() if self.lag_of(place) != 0]
        self._suspect(lagging)
        idle = {place.partition for place in self._places()} - {place.partition for place in lagging}
        await self.judge.tick(sorted(idle))

    def troubles(self) -> list[str]:
        """Return what keeps the worker from judging; nothing when nothing does."""
        reasons = {
            "partitions are being handed out": self.app.rebalancing,
            "states are being recovered": not self.app.tables.actives_ready,
            "no partition is assigned: there are more workers than partitions": not self._places(),
        }
        return [reason for reason, holds in reasons.items() if holds]

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Begin with what was assigned; partitions that belong together must have come together."""
        numbers = {
            topic: {place.partition for place in assigned if place.topic == topic} for topic in self.judge.topics
        }
        if len(set(map(frozenset, numbers.values()))) > 1:
            self.failure = SettingsError(
                f"the workers of this group do not read the same topics (this one: {', '.join(numbers)}); stop all of "
                "them before you change --rekey, or bring in or remove the last rule that looks across sessions"
            )
        await super().on_partitions_assigned(assigned, generation_id)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Finish what was begun, commit it, and let go."""
        # Faust does not wait when the worker is being stopped, and the next owner would read rows that still change.
        async with self._busy:
            try:
                await self.judge.finish()
            except Exception as error:  # noqa: BLE001  # whatever it is: the worker ends with it
                self.failure = error
        await super().on_partitions_revoked(revoked)
        self._settled.clear()
        self._sought.clear()
        self._dropped.clear()
        self._waiting.clear()
        self._ends.clear()
        self._passed.clear()
        self._reread.clear()
        self._claimed = False
        self.judge.forget()

    @asynccontextmanager
    async def between_batches(self) -> AsyncIterator[None]:
        """Wait until everything judged so far is settled, and let nothing be judged meanwhile."""
        async with self._busy:
            await self.judge.finish()
            yield

    async def wait_empty(self) -> None:
        """Wait until what was judged is settled, and commit what is."""
        async with self._busy:
            try:
                await self.judge.finish()
            except Exception as error:  # noqa: BLE001  # whatever it is: it ends the worker, not the rebalance
                self.failure = error
        await self.commit_and_end_transactions()

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        return (place for place in list(self._settled) if topics is None or place in topics or place.topic in topics)

    def _new_offset(self, tp: TP) -> int | None:
        return self._settled.get(tp)

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        """Go to offsets; what is being fetched meanwhile is not from there."""
        self._seeks += 1
        await super().seek_wait(partitions)
        self._seeks += 1

    async def perform_seek(self) -> None:
        """Go to what was committed; what is being fetched meanwhile is not from there."""
        self._seeks += 1
        await super().perform_seek()
        self._seeks += 1


class BatchTransport(Transport):
    """Faust's transport, with our consumer."""

    Consumer = BatchConsumer
