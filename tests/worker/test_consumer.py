"""What the consumer does with what it is given, without a broker: the expected offset decides, whatever comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from stream_guard.ports import Record
from stream_guard.worker.fetched_records import Batch, TopicPartition
from stream_guard.worker.kafka.consumer import BatchConsumer

PLACE = TP("events", 0)


class Judged:
    """A judge that only remembers what it was given."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def next_offset(self, _place: TopicPartition) -> int | None:
        return self.offsets[-1] + 1 if self.offsets else None

    async def judge(self, batch: Batch, settled: Callable[[Batch], None]) -> None:
        for records in batch.values():
            self.offsets += [record.position for record in records]
        settled(batch)

    async def tick(self, _numbers: Sequence[int]) -> None:
        """Nothing ages here."""


class Consumer(BatchConsumer):
    """The consumer's own logic, with the parts that talk to a broker taken out."""

    def __init__(self, judge: Judged) -> None:  # the parts of Faust that need an app are not made
        self._busy = asyncio.Lock()
        self._settled: dict[TP, int] = {}
        self._sought: dict[TP, int] = {}
        self._dropped: set[TP] = set()
        self._waiting: dict[TP, tuple[int, float]] = {}
        self._ticked = float("inf")
        self.handled = 0
        self._claimed = True
        self.failure = None
        self._committed_offset = {PLACE: None}
        self.judge = judge  # type: ignore[assignment]  # a double
        self.seeks: list[int] = []
        self.ready = True
        self._thread = SimpleNamespace(seek=lambda _place, offset: self.seeks.append(offset))  # type: ignore[assignment]  # a double

    def assignment(self) -> set[TP]:
        return {PLACE}

    async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]:
        return dict.fromkeys(partitions, 0)

    def _is_ready(self) -> bool:
        return self.ready

    def give(self, *offsets: int) -> None:
        asyncio.run(self._judge({PLACE: [Record(b"", position=offset) for offset in offsets]}))


@pytest.fixture
def consumer() -> Consumer:
    return Consumer(Judged())


def offsets(consumer: Consumer) -> list[int]:
    judged: Any = consumer.judge
    found: list[int] = judged.offsets
    return found


def test_records_that_came_before_the_states_are_read_again(consumer: Consumer) -> None:
    consumer.ready = False
    consumer.give(0, 1, 2)
    consumer.ready = True
    consumer.give()
    assert consumer.seeks == [0]
    consumer.give(0, 1, 2)
    assert offsets(consumer) == [0, 1, 2]


def test_a_jump_makes_it_go_back_and_nothing_behind_it_is_judged(consumer: Consumer) -> None:
    consumer.give(0, 1)
    consumer.give(5, 6)
    assert (consumer.seeks, offsets(consumer)) == ([2], [0, 1])
    consumer.give(2, 3, 4, 5, 6)
    assert offsets(consumer) == list(range(7))


def test_a_jump_that_the_broker_confirms_is_taken(consumer: Consumer) -> None:
    consumer.give(0, 1)
    consumer.give(5, 6)
    consumer.give(5, 6)
    assert offsets(consumer) == [0, 1, 5, 6]


def test_only_what_was_judged_may_be_committed(consumer: Consumer) -> None:
    consumer.give(0, 1)
    consumer.give(7)
    assert consumer._new_offset(PLACE) == 2
