"""The consumer without a broker: the next offset decides what is processed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError
from faust.types import TP

from stream_guard.ports import Record
from stream_guard.worker.changelog import FencedError
from stream_guard.worker.kafka.consumer import BatchConsumer, ConsumerThread
from stream_guard.worker.stages import FetchedBatch, TopicPartition
from tests.worker.logs import MemoryLog, recover

EVENTS = TP("events", 0)
ROWS = TP("rows", 0)


class Processed:
    """Stages that only keep the offsets that they process."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.ticks: list[list[int]] = []
        self.read_until: dict[TopicPartition, float] = {}

    def next_offset(self, _source: TopicPartition) -> int | None:
        return self.offsets[-1] + 1 if self.offsets else None

    async def process(self, batch: FetchedBatch, on_durable: Callable[[FetchedBatch], None]) -> None:
        for records in batch.values():
            self.offsets += [record.position for record in records]
        on_durable(batch)

    async def tick(
        self, partitions: Set[int], unread: Sequence[TopicPartition], read_until: Mapping[TopicPartition, float]
    ) -> None:
        if idle := partitions - {source.partition for source in unread}:
            self.ticks.append(sorted(idle))
        self.read_until = dict(read_until)


class Consumer(BatchConsumer):
    """The consumer's own logic, with the parts that talk to a broker taken out."""

    def __init__(self, stages: Processed) -> None:  # the parts of Faust that need an app are not made
        self._busy = asyncio.Lock()
        self._committable: dict[TP, int] = {}
        self._sought: dict[TP, int] = {}
        self._discarded: set[TP] = set()
        self._stalled: dict[TP, tuple[int, float]] = {}
        self._asked: dict[TP, tuple[float, int]] = {}
        self._read_until: dict[TP, float] = {}
        self._reread_end: dict[TP, int] = {}
        self._last_tick = float("inf")
        self.handled = 0
        self._is_owner = True
        self._fenced = None
        self._checked = float("inf")
        self.failure = None
        self._committed_offset = {EVENTS: None}
        self.stages = stages  # type: ignore[assignment]  # a double
        self.seeks: list[int] = []
        self.ready = True
        self._thread = SimpleNamespace(seek=lambda _tp, offset: self.seeks.append(offset))  # type: ignore[assignment]  # a double

    def assignment(self) -> set[TP]:
        return {EVENTS}

    def _event_partitions(self) -> list[TP]:
        return [EVENTS]

    async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]:
        return dict.fromkeys(partitions, 0)

    def _is_ready(self) -> bool:
        return self.ready

    def give(self, *offsets: int) -> None:
        asyncio.run(self._process({EVENTS: [Record(b"", position=offset) for offset in offsets]}))


@pytest.fixture
def consumer() -> Consumer:
    return Consumer(Processed())


def offsets(consumer: Consumer) -> list[int]:
    stages: Any = consumer.stages
    found: list[int] = stages.offsets
    return found


def test_records_that_came_before_the_recovery_are_read_again(consumer: Consumer) -> None:
    consumer.ready = False
    consumer.give(0, 1, 2)
    consumer.ready = True
    consumer.give()
    assert consumer.seeks == [0]
    consumer.give(0, 1, 2)
    assert offsets(consumer) == [0, 1, 2]


def test_a_gap_makes_it_seek_back_and_nothing_behind_the_gap_is_processed(consumer: Consumer) -> None:
    consumer.give(0, 1)
    consumer.give(5, 6)
    assert (consumer.seeks, offsets(consumer)) == ([2], [0, 1])
    consumer.give(2, 3, 4, 5, 6)
    assert offsets(consumer) == list(range(7))


def test_a_gap_that_the_broker_confirms_is_accepted(consumer: Consumer) -> None:
    consumer.give(0, 1)
    consumer.give(5, 6)
    consumer.give(5, 6)
    assert offsets(consumer) == [0, 1, 5, 6]


def test_only_offsets_of_processed_records_may_be_committed(consumer: Consumer) -> None:
    consumer.give(0, 1)
    consumer.give(7)
    assert consumer._new_offset(EVENTS) == 2


def test_a_partition_is_read_up_to_a_moment_when_what_it_had_then_is_durable(consumer: Consumer) -> None:
    source = TopicPartition(*EVENTS)
    consumer._learn_ends({EVENTS: 3}, 100.0)
    consumer.give(0, 1)
    consumer._learn_ends({EVENTS: 50}, 101.0)  # it goes on for ever: the first question counts until it is answered
    assert consumer.read_until() == {}
    consumer.give(2, 3)
    assert consumer.read_until() == {source: 100.0}
    consumer._learn_ends({EVENTS: 60}, 102.0)
    assert consumer.read_until() == {source: 100.0}
    consumer.give(*range(4, 60))
    assert consumer.read_until() == {source: 102.0}


class IdleConsumer(Consumer):
    """An owner without unread records, as far as it knows, over a changelog in memory."""

    def __init__(self) -> None:
        super().__init__(Processed())
        self.changelog = MemoryLog()
        self.table, _ = recover(self.changelog)
        self.answers = True
        self._confirm_again = self._last_tick = 0.0
        self._end_offsets: dict[TP, int] = {}

    def _changelog_partitions(self) -> list[TP]:
        return [ROWS]

    def lag_of(self, tp: TP) -> int | None:
        return self._end_offsets.get(tp, 0)

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]:
        if not self.answers:
            raise KafkaConnectionError
        return {tp: self.changelog.end if tp == ROWS else 0 for tp in partitions}

    @property
    def ticks(self) -> list[list[int]]:
        stages: Any = self.stages
        return list(stages.ticks)


def test_the_clock_of_an_idle_partition_advances_when_the_brokers_confirm_that_it_is_idle() -> None:
    async def drive() -> None:
        consumer = IdleConsumer()
        await consumer.table.claim({0: 0})
        await consumer._tick()
        assert consumer.ticks == [[0]]

    asyncio.run(drive())


def test_no_clock_advances_while_the_brokers_do_not_answer() -> None:
    async def drive() -> None:
        consumer = IdleConsumer()
        await consumer.table.claim({0: 0})
        consumer.answers = False
        await consumer._tick()
        assert consumer.ticks == []

    asyncio.run(drive())


def test_an_owner_that_was_frozen_advances_no_clock_when_it_continues() -> None:
    async def drive() -> None:
        consumer = IdleConsumer()
        await consumer.table.claim({0: 0})
        other, end = recover(consumer.changelog)
        await other.claim({0: end})
        with pytest.raises(FencedError):
            await consumer._tick()
        assert consumer.ticks == []

    asyncio.run(drive())


def test_a_rebalance_while_the_worker_stops_leaves_the_client_to_its_thread() -> None:
    # Faust closes it on the loop of the app, and a connection that is closed from another thread crashes uvloop.
    thread = ConsumerThread.__new__(ConsumerThread)
    client: Any = SimpleNamespace(_closed=False)
    thread._consumer = client
    thread.close()
    assert not client._closed
