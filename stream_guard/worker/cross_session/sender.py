"""Sending events to cross-session rules, which are evaluated on the partition of their key.

The partition of a session sends each event to the partitions of all keys that the event has a value for. A message
has the position of its event: messages that are sent again after a crash have the same positions, and the receiver
skips those at or below the last. After the events of a batch, the sender's clock goes to all partitions. A receiver
evaluates an event when the watermarks of all senders have passed it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import Any, Final, Protocol

from stream_guard.kafka.client import partition_of_key
from stream_guard.kafka.writer import Outgoing
from stream_guard.observability.steady_clock import steady_time
from stream_guard.worker.cross_session.messages import ClockMessage, EventMessage, encode_message
from stream_guard.worker.cross_session.outgoing import OutgoingEvent
from stream_guard.worker.stages import BatchProcessor, Outbox, PartitionFold

CLOCKS: Final = 8  # how often, in a grace, a sender says how far it has read while its watermark stands still


class SendingPartition(PartitionFold, Protocol):
    """A partition with events for cross-session rules."""

    @property
    def watermark(self) -> float:
        """The watermark; minus infinity before the first record."""

    def read_until(self, measured: float | None) -> float | None:
        """Return the wall time before which all that was written for the partition is folded; None when unknown.

        ``measured`` is the same for its own topics.
        """

    def take_outgoing(self) -> list[tuple[int, OutgoingEvent]]:
        """Return the events for cross-session rules since the last call, each with the tag of its topic."""


class CrossSessionSender(BatchProcessor[SendingPartition]):
    """A batch processor that also sends messages. They are acknowledged before any state is written."""

    def __init__(self, outbox: Outbox, *, receivers: int, **options: Any) -> None:
        super().__init__(**options)
        self._outbox = outbox
        self._receivers = receivers  # partitions of the cross-session topic
        self._sent: dict[int, ClockMessage] = {}  # the last clock of each partition
        self._read_until: dict[int, float] = {}  # as measured, by partition

    def drop_partitions(self) -> None:
        """Drop all partitions. Their next owner sends their clocks again."""
        super().drop_partitions()
        self._sent.clear()
        self._read_until.clear()

    async def tick(self, partitions: Sequence[int], read_until: Mapping[int, float]) -> None:
        """Advance the clocks of idle partitions, and send those that have changed. The others send with a batch."""
        self._read_until.update(read_until)
        await super().tick(partitions, read_until)
        if partitions:
            await self.flush()
            await self._take_messages({number: self.open(number) for number in partitions})()

    def _take_messages(self, touched: Mapping[int, SendingPartition]) -> Callable[[], Awaitable[None]]:
        out: dict[int, list[Outgoing]] = {}
        for number, partition in touched.items():
            for tag, (position, key_id, turns, memory, event) in partition.take_outgoing():
                key = key_id.encode("utf-8", "surrogatepass")
                value = encode_message(EventMessage(number, tag, position, key_id, turns, memory, event))
                out.setdefault(partition_of_key(key, self._receivers), []).append(Outgoing(key, value))
            if self._moves_clock(number, partition):
                clock = Outgoing(None, encode_message(self._sent[number]))
                for receiver in range(self._receivers):
                    out.setdefault(receiver, []).append(clock)
        return lambda: self._outbox.send(out)

    def _moves_clock(self, number: int, partition: SendingPartition) -> bool:
        """Whether the clock of a partition has moved since it was sent; if so, it is the one that is sent."""
        watermark = None if partition.watermark == -inf else partition.watermark
        read_until, sent = partition.read_until(self._read_until.get(number)), self._sent.get(number)
        if sent is not None and sent.watermark == watermark:
            step = self._settings.worker.idle_grace / CLOCKS
            if read_until is None or (sent.read_until is not None and read_until - sent.read_until < step):
                return False
        self._sent[number] = ClockMessage(number, watermark, steady_time(), read_until)
        return True
