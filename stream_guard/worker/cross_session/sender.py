"""Sending events to cross-session rules, which are evaluated on the partition of their key.

The partition of a session sends each event to the partitions of all keys that the event has a value for. A message
has the position of its event: messages that are sent again after a crash have the same positions, and the receiver
skips those at or below the last. After the events of a batch, the sender's watermark goes to all partitions. A receiver
evaluates an event when the watermarks of all senders have passed it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import Any, Protocol

from stream_guard.kafka.client import partition_of_key
from stream_guard.kafka.writer import Outgoing
from stream_guard.worker.batches import BatchProcessor, PartitionFold
from stream_guard.worker.cross_session.messages import ClockMessage, EventMessage, encode_message
from stream_guard.worker.cross_session.table import OutgoingEvent
from stream_guard.worker.stages import Outbox


class SendingPartition(PartitionFold, Protocol):
    """A partition with events for cross-session rules."""

    @property
    def watermark(self) -> float:
        """The watermark; minus infinity before the first record."""

    def take_outgoing(self) -> list[tuple[int, OutgoingEvent]]:
        """Return the events for cross-session rules since the last call, each with the tag of its topic."""


class CrossSessionSender(BatchProcessor[SendingPartition]):
    """A batch processor that also sends messages. They are acknowledged before any state is written."""

    def __init__(self, outbox: Outbox, *, receivers: int, **options: Any) -> None:
        super().__init__(**options)
        self._outbox = outbox
        self._receivers = receivers  # partitions of the cross-session topic
        self._sent_watermarks: dict[int, float | None] = {}  # by partition

    def drop_partitions(self) -> None:
        """Drop all partitions. Their next owner sends their watermarks again."""
        super().drop_partitions()
        self._sent_watermarks.clear()

    async def tick(self, partitions: Sequence[int]) -> None:
        """Advance the clocks of idle partitions, and send the watermarks that have changed."""
        await super().tick(partitions)
        await self.flush()
        await self._take_messages({number: self.open(number) for number in partitions})()

    def _take_messages(self, touched: Mapping[int, SendingPartition]) -> Callable[[], Awaitable[None]]:
        out: dict[int, list[Outgoing]] = {}
        for number, partition in touched.items():
            for tag, (position, key_id, turns, memory, event) in partition.take_outgoing():
                key = key_id.encode("utf-8", "surrogatepass")
                value = encode_message(EventMessage(number, tag, position, key_id, turns, memory, event))
                out.setdefault(partition_of_key(key, self._receivers), []).append(Outgoing(key, value))
            watermark = None if partition.watermark == -inf else partition.watermark
            if self._sent_watermarks.get(number, -inf) != watermark:
                self._sent_watermarks[number] = watermark
                clock = Outgoing(None, encode_message(ClockMessage(number, watermark)))
                for receiver in range(self._receivers):
                    out.setdefault(receiver, []).append(clock)
        return lambda: self._outbox.send(out)
