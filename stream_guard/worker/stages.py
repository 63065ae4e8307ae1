"""The stages of a worker: some topics are re-keyed, the others are evaluated. The router knows which."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from math import inf
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from stream_guard.alerting.delivery import alerts_of
from stream_guard.asking.desk import JudgedAlerts, JudgedBatch, questions_in
from stream_guard.commit import Commit, HeldLetters, Positions
from stream_guard.decoding.reader import DeadLetterSink
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Alert, Finding
from stream_guard.kafka.writer import Outgoing
from stream_guard.ports import Record
from stream_guard.settings import Settings
from stream_guard.worker.rows import RowChange

# Batches of records, as a worker fetches them.


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


FetchedBatch: TypeAlias = Mapping[TopicPartition, Sequence[Record]]
"""The records of one fetch, by partition, in the order of their offsets."""


class TopicStage(Protocol):
    """Processes the batches of some topics, one call at a time. Its outputs may still be in flight when it returns."""

    def next_offset(self, source: TopicPartition) -> int | None:
        """Return the next offset to process, or None to start at the committed offset."""

    async def process(self, batch: FetchedBatch, on_durable: Callable[[FetchedBatch], None]) -> None:
        """Process a batch. Call ``on_durable`` when its offsets may be committed."""

    async def tick(self, partitions: Sequence[int], read_until: Mapping[int, float]) -> None:
        """Advance the clocks of idle partitions. The caller knows that none of their records is unread.

        ``read_until``: by partition, the wall time before which all that was written to it is processed and durable.
        """

    async def flush(self) -> None:
        """Wait until every processed batch is durable; raise the error that prevented it."""

    def use(self, judge: Judge) -> None:
        """Evaluate another policy from the next batch on. The caller has awaited ``flush``."""

    def drop_partitions(self) -> None:
        """Drop the state of all partitions, after a rebalance. The caller has awaited ``flush``."""


class Outbox(Protocol):
    """Writes the records that a stage passes on, to the partitions of one topic."""

    topic: str

    async def send(self, records: Mapping[int, Sequence[Outgoing]]) -> None:
        """Write the records of each partition in their order; return when the broker has acknowledged all."""


class TopicRouter:
    """Gives each batch to the stage of its topic."""

    def __init__(self, stages: Mapping[str, TopicStage]) -> None:
        self._by_topic = stages
        self._stages = list(dict.fromkeys(stages.values()))

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics to read."""
        return tuple(self._by_topic)

    def next_offset(self, source: TopicPartition) -> int | None:
        """Return the next offset to process, or None to start at the committed offset."""
        return self._by_topic[source.topic].next_offset(source)

    async def process(self, batch: FetchedBatch, on_durable: Callable[[FetchedBatch], None]) -> None:
        """Process a batch, one stage after the other. Each stage calls ``on_durable`` with its share of the batch."""
        if len(self._stages) == 1:
            await self._stages[0].process(batch, on_durable)
            return
        for stage in self._stages:
            share = {source: records for source, records in batch.items() if self._by_topic[source.topic] is stage}
            if share:
                await stage.process(share, on_durable)

    async def tick(
        self, partitions: Set[int], unread: Sequence[TopicPartition], read_until: Mapping[TopicPartition, float]
    ) -> None:
        """Advance the clocks of idle partitions in every stage; tell each how far its topics are read.

        A partition is idle in a stage if neither its topics nor those of the stages before it have ``unread`` records.
        What waits for a later stage does not count: the clocks that a busy partition sends to all would keep each of
        them busy.
        """
        busy = set[int]()
        for stage in self._stages:
            topics = [topic for topic, other in self._by_topic.items() if other is stage]
            busy.update(source.partition for source in unread if source.topic in topics)
            share = {
                number: min(read_until.get(TopicPartition(topic, number), -inf) for topic in topics)
                for number in {source.partition for source in read_until}
            }
            idle = sorted(partitions - busy)
            await stage.tick(idle, {number: wall for number, wall in share.items() if wall > -inf})

    async def flush(self) -> None:
        """Wait until every processed batch is durable; raise the error that prevented it."""
        for stage in self._stages:
            await stage.flush()

    def use(self, judge: Judge) -> None:
        """Evaluate another policy from the next batch on. The states of unchanged rules are kept."""
        for stage in self._stages:
            stage.use(judge)

    def drop_partitions(self) -> None:
        """Drop the state of all partitions."""
        for stage in self._stages:
            stage.drop_partitions()


# Batches: fetched records in; alerts, dead letters, states and then offsets out.
#
# A state on the broker proves that its alerts were acknowledged. A committed offset proves that the states were
# acknowledged. While a batch waits for the broker, the next batch is evaluated; its snapshot is taken when the batch
# before is durable.

_SLICE: Final = 250  # records folded at a time; in between, the loop handles the broker's responses

_logger = logging.getLogger(__name__)


class StateTable(Protocol):
    """The worker's table of rows, backed by the changelog topic."""

    def recovered(self, partition: int) -> Mapping[bytes, bytes]:
        """Return the current rows of a partition."""

    async def write(self, changes: Mapping[int, Sequence[RowChange]]) -> None:
        """Write the changes of each partition in their order; return when the broker has acknowledged all."""


class PartitionFold(Protocol):
    """The state of one partition, and the fold over its records."""

    @property
    def foreign_keys(self) -> int:
        """How many events came under a key that is not their session's id."""

    def next_offset(self, topic: str) -> int | None:
        """Return the next offset to fold, or None when the partition has no record of the topic yet."""

    def fold(self, topic: str, records: Sequence[Record], out: list[Finding]) -> None:
        """Fold records in the order of their offsets; skip those that are in the state already."""

    def tick(self, grace: float, out: list[Finding]) -> bool:
        """Advance the clock of an idle partition by wall time; return whether the state changed."""

    def snapshot(self) -> list[RowChange]:
        """Return the row changes that make everything folded so far durable."""

    def version_of(self, finding: Finding) -> str:
        """Return the version of the policy that found it."""


PartitionT = TypeVar("PartitionT", bound=PartitionFold)

PartitionFactory: TypeAlias = Callable[[int, Mapping[bytes, bytes], Judge, DeadLetterSink], PartitionT]
"""Makes a partition from its number, its rows, the judge that lends its rules, and the receiver of its dead letters."""


class _Found:
    """What the rules found in a batch: alerts, and findings that a judge is asked about before they are any."""

    def __init__(self) -> None:
        self.alerts: list[Alert] = []
        self.asked: list[Finding] = []

    def add(self, partition: PartitionFold, findings: Sequence[Finding]) -> None:
        """Add the findings of a partition, each with the version of the policy that found it."""
        self.asked += questions_in(findings)
        for finding in findings:
            self.alerts += alerts_of((finding,), partition.version_of(finding))


class BatchProcessor(Generic[PartitionT]):
    """Folds batches into the assigned partitions: one batch is evaluated while the batch before becomes durable."""

    def __init__(
        self,
        *,
        judge: Judge,
        alerts: JudgedAlerts,
        commit: Commit[JudgedBatch],
        rows: StateTable,
        settings: Settings,
        observe: Callable[[float, int], None],
        make: PartitionFactory[PartitionT],
    ) -> None:
        self._judge = judge
        self._alerts = alerts
        self._commit = commit
        self._rows = rows
        self._settings = settings
        self._observe = observe
        self._make = make
        self._partitions: dict[int, PartitionT] = {}
        self._dead_letters = HeldLetters()
        self._in_flight: asyncio.Future[None] | None = None
        self._warned = False
        self.counts = judge.counts

    def use(self, judge: Judge) -> None:
        """Evaluate another policy from the next batch on. The states of unchanged rules are kept.

        The caller has awaited ``flush``.
        """
        self.drop_partitions()
        self._judge = judge

    def drop_partitions(self) -> None:
        """Drop all partitions. Their rows are in the table, or in that of another owner; ``flush`` was awaited."""
        self._partitions.clear()
        self._in_flight = None  # a batch that another owner's rows made void must not be reported again
        self._dead_letters.take()
        self.counts.sessions = 0

    def open(self, number: int) -> PartitionT:
        """Return a partition; make it from its rows when it is not in memory."""
        partition = self._partitions.get(number)
        if partition is None:
            partition = self._make(number, self._rows.recovered(number), self._judge, self._dead_letters)
            self._partitions[number] = partition
        return partition

    def next_offset(self, source: TopicPartition) -> int | None:
        """Return the next offset to process, or None when the partition has no record of the topic yet."""
        return self.open(source.partition).next_offset(source.topic)

    async def process(self, batch: FetchedBatch, on_durable: Callable[[FetchedBatch], None]) -> None:
        """Evaluate a batch and start to write its results; call ``on_durable`` when all of them are acknowledged.

        Returns when the batch before is durable. An error of that batch is raised here, or by ``flush``.
        """
        began, found = time.perf_counter(), _Found()
        touched: dict[int, PartitionT] = {}
        for source, records in batch.items():
            partition, here = self.open(source.partition), list[Finding]()
            touched[source.partition] = partition
            for start in range(0, len(records), _SLICE):
                partition.fold(source.topic, records[start : start + _SLICE], here)
                await asyncio.sleep(0)
            found.add(partition, here)

        def done() -> None:
            on_durable(batch)
            self._observe(time.perf_counter() - began, sum(map(len, batch.values())))

        await self._start_writing(touched, found, done)
        self._warn_of_foreign_keys(touched)

    async def tick(self, partitions: Sequence[int], read_until: Mapping[int, float]) -> None:
        """Advance the clocks of idle partitions and write what changed."""
        del read_until  # only others need to know
        if not partitions:
            return
        await self.flush()
        found = _Found()
        changed: dict[int, PartitionT] = {}
        for number in partitions:
            partition, here = self.open(number), list[Finding]()
            if partition.tick(self._settings.worker.idle_grace, here):
                changed[number] = partition
            found.add(partition, here)
        if changed or self._alerts.are_there():
            await self._start_writing(changed, found, lambda: None)

    async def flush(self) -> None:
        """Wait until every processed batch is durable; raise the error that prevented it."""
        if self._in_flight is not None:
            await asyncio.shield(self._in_flight)

    async def _start_writing(self, touched: Mapping[int, PartitionT], found: _Found, done: Callable[[], None]) -> None:
        await self.flush()  # the next snapshot needs the rows of the last one in the table
        judge = self._judge
        send_messages = self._take_messages(touched)
        changes = {number: partition.snapshot() for number, partition in touched.items()}
        dead_letters = self._dead_letters.take()

        async def write(_: Positions) -> None:
            await self._rows.write(changes)

        async def commit() -> None:
            await send_messages()
            is_due = found.alerts or found.asked or self._alerts.are_there()
            judged = JudgedBatch(found.alerts, found.asked, judge) if is_due else None
            await self._commit.run_beside(judged, write, lambda _: done(), dead_letters)

        self._in_flight = asyncio.ensure_future(commit())

    def _take_messages(self, touched: Mapping[int, PartitionT]) -> Callable[[], Awaitable[None]]:
        """Return the first write of a batch: its messages to other partitions. Called before the snapshots."""
        del touched
        return _send_nothing

    def _warn_of_foreign_keys(self, touched: Mapping[int, PartitionT]) -> None:
        foreign = sum(partition.foreign_keys for partition in touched.values())
        if foreign and not self._warned:
            self._warned = True
            _logger.warning(
                "%d records have a key that is not their session's id: the events of a session may be spread over "
                "partitions and are then judged apart; let producers use the session's id as the key",
                foreign,
            )


async def _send_nothing() -> None:
    """Stand in for the messages of a batch that has none."""
