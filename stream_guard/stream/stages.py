"""What a worker does with the topics it reads: some are passed on, the others are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from stream_guard.engine import Engine
from stream_guard.stream.places import TopicPartition


class Stage(Protocol):
    """Takes batches of some topics, one at a time, and has settled them when it returns."""

    def next_offset(self, place: TopicPartition) -> int | None:
        """Return the offset that must come next; None says that what was committed is the place to begin."""

    async def judge(self, batch: Mapping[TopicPartition, Sequence[Any]]) -> None:
        """Bring records from their partitions to safety."""

    async def tick(self, numbers: Sequence[int]) -> None:
        """Hear that everything there is on these partitions has been judged, and nothing comes."""

    def use(self, engine: Engine) -> None:
        """Judge by another policy from the next batch on."""

    def forget(self) -> None:
        """Let go of all partitions."""


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

    async def judge(self, batch: Mapping[TopicPartition, Sequence[Any]]) -> None:
        """Settle the batch, stage by stage."""
        if len(self._all) == 1:
            await self._all[0].judge(batch)
            return
        for stage in self._all:
            mine = {place: records for place, records in batch.items() if self._by_topic[place.topic] is stage}
            if mine:
                await stage.judge(mine)

    async def tick(self, numbers: Sequence[int]) -> None:
        """Tell every stage that nothing comes on these partitions."""
        for stage in self._all:
            await stage.tick(numbers)

    def use(self, engine: Engine) -> None:
        """Judge by another policy from the next batch on; states of rules that did not change are kept."""
        for stage in self._all:
            stage.use(engine)

    def forget(self) -> None:
        """Let go of all partitions."""
        for stage in self._all:
            stage.forget()
