"""The stages of a worker: some topics are re-keyed, the others are evaluated. The router knows which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from math import inf
from typing import Protocol

from stream_guard.judge.fold import Engine
from stream_guard.kafka.writer import Outgoing
from stream_guard.worker.fetched_records import FetchedBatch, TopicPartition


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

    def use(self, engine: Engine) -> None:
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

    def use(self, engine: Engine) -> None:
        """Evaluate another policy from the next batch on. The states of unchanged rules are kept."""
        for stage in self._stages:
            stage.use(engine)

    def drop_partitions(self) -> None:
        """Drop the state of all partitions."""
        for stage in self._stages:
            stage.drop_partitions()
