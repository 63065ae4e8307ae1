"""Showing events to rules that look across sessions: they live where their key's value lives, reached by a topic.

Whoever judges a session sends each of its events to the partition of every value that such a rule has its key in.
With it goes where it came from: what is sent again after a crash comes from the same place, and whoever is shown
an event passes over what is not beyond the last. Behind the events of a batch goes the sender's clock, to all
partitions: an event is judged when nobody can send an earlier one any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import Any

from stream_guard.kafka.client import home_of
from stream_guard.kafka.writer import Outgoing
from stream_guard.worker.batches import BatchProcessor, PartitionFold
from stream_guard.worker.cross_session.messages import ClockMessage, EventMessage, encode_item
from stream_guard.worker.kafka.outbox import Outbox
from stream_guard.worker.partition import Partition


class CrossSessionSender(BatchProcessor):
    """A judge whose partitions show their events; they are acknowledged before any state is written."""

    def __init__(self, outbox: Outbox, *, width: int, **options: Any) -> None:
        super().__init__(**options)
        self._outbox = outbox
        self._width = width  # partitions of the topic that events are shown through
        self._told: dict[int, float | None] = {}  # clocks, by partition

    def forget(self) -> None:
        """Let go of all partitions; whoever has them next tells their clocks."""
        super().forget()
        self._told.clear()

    async def tick(self, numbers: Sequence[int]) -> None:
        """Let silent partitions age, and tell the clocks that have moved."""
        await super().tick(numbers)
        await self.finish()
        await self._gather({number: self.open(number) for number in numbers})()

    def _gather(self, touched: Mapping[int, PartitionFold]) -> Callable[[], Awaitable[None]]:
        out: dict[int, list[Outgoing]] = {}
        for number, partition in touched.items():
            if not isinstance(partition, Partition):
                continue
            for tag, (at, key_id, turns, memory, event) in partition.take_shown():
                key = key_id.encode("utf-8", "surrogatepass")
                value = encode_item(EventMessage(number, tag, at, key_id, turns, memory, event))
                out.setdefault(home_of(key, self._width), []).append(Outgoing(key, value))
            watermark = None if partition.watermark == -inf else partition.watermark
            if self._told.get(number, -inf) != watermark:
                self._told[number] = watermark
                clock = Outgoing(None, encode_item(ClockMessage(number, watermark)))
                for target in range(self._width):
                    out.setdefault(target, []).append(clock)
        return lambda: self._outbox.send(out)
