"""Faust's consumer, with one change: fetched batches go to the stages as they are, one at a time.

Faust would start four tasks for each message and keep messages in a queue, which a rebalance empties. Here the task
that fetches also processes, so that no record is in between when partitions are revoked. Each partition knows its
next offset. When another one comes, for whatever reason, the consumer seeks back to it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple

from aiokafka.errors import ConsumerStoppedError, KafkaError
from aiokafka.record import default_records, legacy_records
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Transport
from faust.types import TP

from stream_guard.errors import SourceError, StoreError
from stream_guard.judge.counts import RestoreFigure
from stream_guard.kafka.unpacking import GuardedRecords, UnpackBudget, bound_codecs, make_record
from stream_guard.observability.steady_clock import steady_time
from stream_guard.ports import Record
from stream_guard.sources.splitting import HEAD
from stream_guard.worker.changelog import FencedError, LoggedRow
from stream_guard.worker.kafka.group import GroupConsumer
from stream_guard.worker.kafka.topics import TopicDescription, describe_topics, partitions_differ
from stream_guard.worker.rows import KnownTopic, RowChange, encode_row, import_key, known_topics, owner_key, topics_key
from stream_guard.worker.stages import FetchedBatch, TopicPartition

# Fetching: our records come out of the client's batches, instead of the client's own.


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


STALL: Final = 5.0  # seconds without a record from a partition that has some, before it is read again
END_OFFSETS: Final = 5.0  # seconds between two requests for the end offsets
CHECK: Final = 10.0  # seconds between two looks at the topics, and after a question without an answer
NEVER_READ: Final = KnownTopic(b"")
HEARSAY: Final = 1.0  # seconds until all brokers know of a topic
POLL: Final = 0.5  # seconds that one fetch waits for records
TICK: Final = 1.0  # seconds between two ticks of idle partitions
_NO_ROW: Final = b""  # the key of no row
EVERY: Final = 5.0  # seconds between two lines of the log about a restore

_logger = logging.getLogger(__name__)

# Known topics: whether the topic of a partition is still the one whose offsets are in the rows.
#
# Offsets mean something for one topic only. A topic that was made anew, or that lost records, has other records under
# the same offsets: they would look as if they had been applied. So a partition's rows name the id of each topic.
# Another topic that is accepted under the name is its next incarnation, and offsets of an earlier one mean nothing for
# it.


class PresentTopic(NamedTuple):
    """A topic as the broker has it now."""

    topic_id: bytes  # empty when the broker has no ids
    end: int  # the end offset of the partition


def changed(known: KnownTopic | None, present: PresentTopic, next_offset: int | None) -> str:
    """Return what shows that it is not the topic that was read before; empty when nothing does."""
    if known is not None and known.topic_id and present.topic_id and known.topic_id != present.topic_id:
        return "it was deleted and made anew"
    if next_offset is not None and next_offset > present.end:
        return f"it ends at {present.end}, and {next_offset} is to be read next: it was made anew, or lost records"
    return ""


def recognise(
    source: TopicPartition, known: KnownTopic | None, present: PresentTopic, next_offset: int | None, *, accept: bool
) -> KnownTopic:
    """Return what is known of the topic from now on; SourceError when it has changed and that is not accepted."""
    what = changed(known, present, next_offset)
    incarnation = 0 if known is None else known.incarnation
    if what and not accept:
        raise refusal(source, what)
    return KnownTopic(present.topic_id or (b"" if known is None else known.topic_id), incarnation + bool(what))


def refusal(source: TopicPartition, what: str) -> SourceError:
    """Return the error for a topic that has changed."""
    return SourceError(
        f"{source.topic}/{source.partition}: this is not the topic that was read before: {what}; nothing of it was "
        f"judged. To read it from its first record, keeping all states, start the workers with "
        f"{source.topic}?gaps=accept once; to begin without states, use another group"
    )


class RestoreProgress:
    """How far the states of one assignment are restored, for the log, the metrics and /readyz."""

    def __init__(self) -> None:
        self._began = self._ended = self._said = 0.0  # by a clock that nobody sets; 0 before the first row
        self._rows = self._left = 0

    def add(self, rows: int, left: int) -> None:
        """Take note of rows that were read, and of how many are left."""
        self._ended = time.monotonic()
        self._began = self._began or self._ended
        self._said = self._said or self._ended
        self._rows += rows
        self._left = max(0, left - rows)
        if self._ended - self._said >= EVERY:
            self._said = self._ended
            done = self._rows / (self._rows + self._left)
            _logger.info("states are restored: %d rows read, %d left, %.0f %%", self._rows, self._left, 100 * done)

    def reason(self) -> str:
        """Return why the worker is not ready."""
        read = f"{self._rows} rows read, {self._left} left" if self._rows else "no row read yet"
        return f"states are being recovered: {read}"

    def figures(self, left: int) -> dict[RestoreFigure, float]:
        """Return the numbers for the metrics, with how many rows are left now."""
        return {"rows": self._rows, "rows_left": max(0, left), "seconds": self._ended - self._began}

    def say_end(self, rows: int) -> None:
        """Log what it took, and how many rows there are."""
        took = self._ended - self._began
        _logger.info("states are here: %d rows; %d rows were read for them, in %.1f s", rows, self._rows, took)


class BatchConsumer(GroupConsumer):
    """Hands whole batches to the stages, and commits the offsets of durable batches.

    It claims the assigned partitions before it reads them, and learns when they have another owner, or when their
    topics are no longer those that were read before. The lag of a partition counts from the offset that may be
    committed; a partition that has records and delivers none is read again.
    """

    # Set by the app before the consumer starts.
    limit: int  # bytes; a longer record is cut
    sources: Collection[str]  # the topics of the address; the others are the group's own
    accept_gaps: bool  # a topic that was made anew may be read
    fence_patience: float  # seconds that a worker without its partitions waits for others

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._busy = asyncio.Lock()  # held while a batch is processed
        self._committable: dict[TP, int] = {}  # the next offset after the durable records
        self._discarded: set[TP] = set()  # partitions whose fetched records were discarded, to be read again
        self._sought: dict[TP, int] = {}  # the offset of our last seek, until a record comes
        self._seeks = 0
        self._stalled: dict[TP, tuple[int, float]] = {}  # lagging partitions: the committable offset, and since when
        self._reread_from: dict[TP, int] = {}  # the offset from which a stalled partition was read again
        self._reread_end: dict[TP, int] = {}  # the client's position after that: transaction markers are behind it
        self._end_offsets: dict[TP, int] = {}  # as the broker returned them last
        self._requested = 0.0  # when that was
        self._asked: dict[TP, tuple[float, int]] = {}  # when its end was asked for, and what it was; not yet read
        self._read_until: dict[TP, float] = {}  # all that was written before is durable
        self._is_owner = False  # of the assigned partitions
        self._fenced: tuple[float, FencedError] | None = None  # until when to wait, and what happened
        self._checked = 0.0  # when the topics were looked at last
        self._confirm_again = 0.0  # when to ask for end offsets again, after no answer
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
        offset = self._position(tp)
        return (await self.earliest_offsets(tp))[tp] or 0 if offset is None else offset

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

    def lag_of(self, tp: TP) -> int | None:
        """Return the lag of a partition in records; None while its end offset is unknown."""
        highwater: int | None = self.highwater(tp)
        end = self._end_offsets.get(tp) if highwater is None else max(highwater, self._end_offsets.get(tp, 0))
        done = self._done(tp)
        if end is None or (done is None and end > 0):
            return None
        return max(0, end - (done or 0))

    def _done(self, tp: TP) -> int | None:
        """Return the next offset after the durable records of a partition; None while it is unknown."""
        if not self._is_owner:  # to open a partition takes time, and before the claim it may lack rows
            return self._committed_offset[tp]
        done = self._committable.get(tp)
        if done is None:
            done = self.stages.next_offset(TopicPartition(*tp))
        reread_end = self._reread_end.get(tp)
        if reread_end is not None and self._was_read_again(tp):
            done = max(reread_end, done or 0)
        return done

    def _learn_ends(self, ends: Mapping[TP, int], asked: float) -> None:
        """Take note of where partitions end, which was asked for at a wall time."""
        self._end_offsets = dict(ends)
        for tp, end in ends.items():
            self._asked.setdefault(tp, (asked, end))

    def read_until(self) -> dict[TopicPartition, float]:
        """Return, by partition, the wall time before which all that was written to it is durable."""
        known: dict[TopicPartition, float] = {}
        for tp in self._event_partitions():
            asked, end = self._asked.get(tp, (0.0, inf))
            if (self._done(tp) or 0) >= end:
                self._read_until[tp] = asked
                del self._asked[tp]
            if tp in self._read_until:
                known[TopicPartition(*tp)] = self._read_until[tp]
        return known

    def _lagging(self) -> list[TP]:
        return [tp for tp in self._event_partitions() if self.lag_of(tp) != 0]

    def lags(self) -> dict[tuple[str, str], int]:
        """Return the lag of each partition in records, as far as it is known."""
        lags = {tp: self.lag_of(tp) for tp in self._event_partitions()} if self._is_ready() else {}
        return {(tp.topic, str(tp.partition)): lag for tp, lag in lags.items() if lag is not None}

    def lag(self) -> int:
        """Return the lag of all partitions in records, as far as it is known."""
        return sum(self.lag_of(tp) or 0 for tp in self._event_partitions()) if self._is_ready() else 0

    async def refresh_end_offsets(self) -> None:
        """Request the end offsets now and then: a client that has stopped fetching does not learn of new records."""
        partitions = self._event_partitions()
        if time.monotonic() - self._requested < END_OFFSETS or not partitions or not self._is_ready():
            return
        self._requested = time.monotonic()
        with suppress(KafkaError, TimeoutError):  # BrokerHealth handles a broker that does not answer
            asked = steady_time()
            self._learn_ends(await asyncio.wait_for(self.highwaters(*partitions), END_OFFSETS), asked)

    async def _skip_markers(self) -> None:
        """Find the position behind transaction markers: they have offsets, and the client delivers no record for them.

        Trust the client's position only after re-reading from the committable offset returned no records.
        """
        for tp in list(self._stalled):
            if self._was_read_again(tp):
                position = await self.position(tp)
                if position is not None:
                    self._reread_end[tp] = position

    def _was_read_again(self, tp: TP) -> bool:
        return tp not in self._discarded and self._reread_from.get(tp) == self._committable.get(tp, -1)

    def _reread_stalled(self, lagging: Sequence[TP]) -> None:
        """Read lagging partitions again that have delivered nothing for a while. It is cheap; a lost record is not."""
        now, before = time.monotonic(), self._stalled
        self._stalled = {}
        for tp in lagging:
            committable = self._committable.get(tp, -1)
            offset, since = before.get(tp, (committable, now))
            if offset != committable or now - since > STALL:
                if offset == committable:
                    self._discarded.add(tp)
                    self._reread_from[tp] = committable
                offset, since = committable, now
            self._stalled[tp] = (offset, since)

    async def _become_owner(self) -> bool:
        """Claim the assigned partitions, and see that their topics are those that were read before.

        False when the brokers cannot answer yet: a partition may be between two leaders. The next claim is another one.
        """
        tables: Any = self.app.tables  # Faust's interface leaves out the recovery
        highwaters = tables.recovery.active_highwaters  # of the last row, and not of the next one
        recovered = {
            tp.partition: max(highwaters[tp] + 1 if tp in highwaters else 0, self.table.end(tp.partition))
            for tp in self._changelog_partitions()
        }
        for number in recovered:
            if import_key(number) in self.table.recovered(number):
                raise StoreError(
                    f"the import of states into partition {number} has not finished; import the same file again, and "
                    "start the workers then"
                )
        new = {number for number in recovered if owner_key(number) not in self.table.recovered(number)}
        await self.table.claim(recovered)
        self.stages.drop_partitions()  # opened before the claim, they may lack rows
        try:
            described, ends = await self._describe()
        except (KafkaError, TimeoutError) as error:
            _logger.info("no answer about the topics: %r; asking again", error)
            return False
        if await self._recognise_topics(described, ends, new):
            self.stages.drop_partitions()  # opened under what was known of the topics before
        self._checked = time.monotonic()
        self._is_owner = True
        return True

    async def _recognise_topics(
        self, described: Mapping[str, TopicDescription], ends: Mapping[TP, int], new: Collection[int]
    ) -> bool:
        """Record the topics of the partitions; raise SourceError for one that is not the one that was read before.

        Returns whether something new is known of them.
        """
        changes: dict[int, list[RowChange]] = {}
        for number in sorted({tp.partition for tp in ends}):
            before = known_topics(self.table.recovered(number), number)
            now = dict(before)
            for tp in sorted(tp for tp in ends if tp.partition == number):
                source, present = TopicPartition(*tp), PresentTopic(described[tp.topic].topic_id, ends[tp])
                if number in new and (self._committed_offset[tp] or 0) > 0:
                    self._refuse_lost_states(source)
                accept = self.accept_gaps and tp.topic in self.sources
                now[tp.topic] = recognise(source, before.get(tp.topic), present, self._position(tp), accept=accept)
                if now[tp.topic].incarnation > before.get(tp.topic, NEVER_READ).incarnation:
                    _logger.warning("%s/%d: another topic is read under this name, from its first record", *tp)
                    self._committed_offset[tp] = 0
                    self._discarded.add(tp)
            if now != before:
                changes[number] = [(topics_key(number), encode_row(now))]
        await self.table.write(changes)
        return bool(changes)

    def _refuse_lost_states(self, source: TopicPartition) -> None:
        what = f"{source.topic}/{source.partition} was read by this group, and there are no states of it"
        if not self.accept_gaps:
            raise SourceError(
                f"{what}: the group's changelog was deleted; to go on without the states, start the workers with "
                f"{source.topic}?gaps=accept once, or use another group"
            )
        _logger.warning("%s; going on without", what)

    def _position(self, tp: TP) -> int | None:
        """Return the offset from which a partition goes on; None when nothing of it was read."""
        offset = self.stages.next_offset(TopicPartition(*tp))
        return self._committed_offset[tp] if offset is None else offset

    async def _describe(self) -> tuple[Mapping[str, TopicDescription], Mapping[TP, int]]:
        """Return the topics as the brokers have them, and the end offsets of the assigned partitions."""
        topics = {*self.stages.topics, *(tp.topic for tp in self._changelog_partitions())}
        described = await describe_topics(self.client, sorted(topics))
        if topics - described.keys():
            await asyncio.sleep(HEARSAY)  # a broker may not have heard of a topic yet
            described = await describe_topics(self.client, sorted(topics))
        if missing := topics - described.keys():
            raise SourceError(f"there is no topic {', '.join(sorted(missing))} any more; create it again")
        counts = {topic: described[topic].partitions for topic in sorted(topics)}
        if len(set(counts.values())) > 1:
            raise partitions_differ(counts)
        partitions = self._event_partitions()
        ends = await asyncio.wait_for(self.highwaters(*partitions), END_OFFSETS) if partitions else {}
        return described, dict(ends)

    async def _confirm_ends(self) -> bool:
        """Ask where all partitions end, now; False without an answer. FencedError when a changelog has another owner.

        Rows of others are found here: an owner that writes nothing would not meet them.
        """
        if time.monotonic() < self._confirm_again:
            return False
        events, rows, asked = self._event_partitions(), self._changelog_partitions(), steady_time()
        try:
            ends = dict(await asyncio.wait_for(self.highwaters(*events, *rows), END_OFFSETS))
            for tp in rows:
                if ends[tp] > self.table.end(tp.partition):  # rows of others, or our own in flight
                    await self.table.check(tp.partition, partial(self._end_of, tp))
                else:
                    self.table.note_complete(tp.partition)
        except (KafkaError, TimeoutError) as error:  # BrokerHealth handles brokers that do not answer
            _logger.info("no answer about the ends of partitions: %r; their clocks stand still", error)
            self._confirm_again = time.monotonic() + CHECK
            return False
        self._learn_ends({tp: ends[tp] for tp in events}, asked)
        return True

    async def _end_of(self, tp: TP) -> int:
        ends = await asyncio.wait_for(self.highwaters(tp), END_OFFSETS)
        return int(ends[tp])

    async def _check_topics(self) -> None:
        """See now and then that the topics are the same."""
        if time.monotonic() - self._checked < CHECK:
            return
        self._checked = time.monotonic()
        try:
            described, ends = await self._describe()
        except (KafkaError, TimeoutError) as error:  # as above
            _logger.info("no answer about the topics: %r", error)
            return
        for tp, end in ends.items():
            known = known_topics(self.table.recovered(tp.partition), tp.partition).get(tp.topic)
            if what := changed(known, PresentTopic(described[tp.topic].topic_id, end), self._position(tp)):
                raise refusal(TopicPartition(*tp), what)

    def _be_fenced(self, error: FencedError) -> None:
        """Process nothing more until partitions are assigned again."""
        if self._fenced is None:
            _logger.warning("%s; waiting for partitions", error)
            self._fenced = (time.monotonic() + self.fence_patience, error)
        self._is_owner = False

    def _is_fenced(self) -> bool:
        """Whether the partitions have another owner; raise FencedError when that lasts."""
        if self._fenced is None:
            return False
        until, error = self._fenced
        if time.monotonic() > until:
            raise FencedError(f"{error}: start the worker again") from error
        return True

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
        self._is_owner, self._fenced = False, None
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
