"""What a worker does with the topics it reads: some are passed on, the others are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from stream_guard.engine import Engine
from stream_guard.worker.fetched_records import Batch, TopicPartition


class Stage(Protocol):
    """Takes batches of some topics, one at a time; the next may come before the last one is settled."""

    def next_offset(self, place: TopicPartition) -> int | None:
        """Return the offset that must come next; None says that what was committed is the place to begin."""

    async def judge(self, batch: Batch, settled: Callable[[Batch], None]) -> None:
        """Bring records from their partitions to safety, and tell when they are there."""

    async def tick(self, numbers: Sequence[int]) -> None:
        """Hear that everything there is on these partitions has been judged, and nothing comes."""

    async def finish(self) -> None:
        """Wait until everything that was taken is settled; raise what kept it from being so."""

    def use(self, engine: Engine) -> None:
        """Judge by another policy from the next batch on; ``finish`` has been awaited."""

    def forget(self) -> None:
        """Let go of all partitions; ``finish`` has been awaited."""


class Stages:
    """Gives each batch to the stage of its topic."""

    def __init__(self, stages: Mapping[str, Stage]) -> None:
        self._by_topic = stages
        self._all = list(dict.fromkeys(stages.values()))

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics that are read."""
        return tuple(self._by_topic)

    def next_offset(self, place: TopicPartition) -> int | None:
        """Return the offset that must come next; None says that what was committed is the place to begin."""
        return self._by_topic[place.topic].next_offset(place)

    async def judge(self, batch: Batch, settled: Callable[[Batch], None]) -> None:
        """Take the batch, stage by stage; ``settled`` is told each part of it that is safe."""
        if len(self._all) == 1:
            await self._all[0].judge(batch, settled)
            return
        for stage in self._all:
            mine = {place: records for place, records in batch.items() if self._by_topic[place.topic] is stage}
            if mine:
                await stage.judge(mine, settled)

    async def tick(self, numbers: Sequence[int]) -> None:
        """Tell every stage that nothing comes on these partitions."""
        for stage in self._all:
            await stage.tick(numbers)

    async def finish(self) -> None:
        """Wait until everything that was taken is settled; raise what kept it from being so."""
        for stage in self._all:
            await stage.finish()

    def use(self, engine: Engine) -> None:
        """Judge by another policy from the next batch on; states of rules that did not change are kept."""
        for stage in self._all:
            stage.use(engine)

    def forget(self) -> None:
        """Let go of all partitions."""
        for stage in self._all:
            stage.forget()
