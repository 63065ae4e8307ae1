"""Rules that look across sessions: events are sent to the partition of the rule's key, and evaluated there.

The partition of a session sends each event to the partitions of all keys that the event has a value for. A message
has the position of its event: messages that are sent again after a crash have the same positions, and the receiver
skips those at or below the last. After the events of a batch, the sender's clock goes to all partitions.

Each sender's events come in that sender's order. The receiver evaluates them in the order of their times: an event
waits until the watermarks of all senders have passed it, except those of stale senders. The result depends on the
records alone, not on batches, so that a run after a crash repeats what the crash interrupted. The one exception is a
stamp that is not credible by the receiver's own clock: its event is evaluated at once.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any, Final, TypeAlias

import msgspec

from stream_guard.decoding.reader import DeadLetterSink
from stream_guard.judge.clock import SharedClock
from stream_guard.judge.json_values import decode, encode, is_json
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, resolved
from stream_guard.kafka.client import partition_of_key
from stream_guard.kafka.writer import Outgoing
from stream_guard.observability.steady_clock import receiver_time, steady_time
from stream_guard.ports import Record
from stream_guard.settings import SessionLimits
from stream_guard.worker.partition import SessionPartition
from stream_guard.worker.rows import (
    EventPosition,
    PartitionStore,
    RowChange,
    SenderProgress,
    WatermarkSample,
    offset_of,
    waiting_key,
    waiting_prefix,
)
from stream_guard.worker.stages import BatchProcessor, Outbox

_PARTS: Final = 8  # of the grace: the resolution of the samples
CLOCKS: Final = 8  # how often, in a grace, a sender says how far it has read while its watermark stands still

_logger = logging.getLogger(__name__)

# The messages between partitions, as they are written to the cross-session topic.


@resolved
class EventMessage(msgspec.Struct, array_like=True, tag=1, gc=False):
    """An event for the rules of one key value, without content where it only keeps the key from becoming idle.

    The tag and the order of the fields are the format.
    """

    sender: int
    tag: int  # of the event's topic
    position: EventPosition
    key_id: str
    turns: int
    memory: list[int]
    event: Event


@resolved
class ClockMessage(msgspec.Struct, array_like=True, tag=2, gc=False):
    """The clock of a sender, behind its events. The tag and the order of the fields are the format."""

    sender: int
    watermark: float | None  # None before its first event
    wall: float = 0.0  # when it was sent; 0 from an earlier version
    read_until: float | None = None  # the wall time before which the sender has read all that was written to it


CrossSessionMessage: TypeAlias = EventMessage | ClockMessage

encode_message: Final = encode
_decode: Final = msgspec.msgpack.Decoder(CrossSessionMessage).decode


def decode_message(data: bytes) -> CrossSessionMessage:
    """Return a message as it was sent; an event may hold what only JSON has a form for."""
    message: CrossSessionMessage = decode(data, CrossSessionMessage) if is_json(data) else _decode(data)
    return message


# Stale senders: a partition of which all stamps are old holds the others back for a while, and no longer.
#
# Rules that look across sessions wait for the slowest sender. A sender that has read all of its input and is still far
# behind is not slow: the clocks of its producers are wrong, or nothing is written to it. Its watermark is lifted to the
# furthest watermark of ``grace`` seconds before. A sender with unread input lifts nobody: the others wait for it.
# Only the content of messages counts, so that a run after a crash repeats what the crash interrupted (docs/adr/0020).


class FurthestWatermarks:
    """The furthest watermark of all senders, by wall time. Only the last samples are kept."""

    def __init__(self, samples: list[WatermarkSample], grace: float) -> None:
        self._samples = samples
        self._step = grace / _PARTS
        self._most = 3 * _PARTS

    def note(self, wall: float, watermark: float) -> None:
        """Record a sender's watermark; one that is ahead of its wall time counts as the wall time."""
        samples, watermark = self._samples, min(watermark, wall)
        if samples:
            last, furthest = samples[-1]
            wall = max(wall, last)  # the clocks of two workers differ
            if watermark <= furthest:
                return
            if len(samples) > 1 and wall - samples[-2][0] < self._step:
                samples.pop()
        samples.append((wall, watermark))
        del samples[: -self._most]

    def at(self, wall: float) -> float | None:
        """Return the furthest watermark at a wall time; None when it is not known."""
        return next((watermark for sampled, watermark in reversed(self._samples) if sampled <= wall), None)


def clock_of(sender: SenderProgress) -> float | None:
    """Return the time up to which others have waited for a sender; None when it had no event yet."""
    return None if sender.watermark is None else max(sender.watermark, sender.lifted)


def is_stale(sender: SenderProgress, grace: float) -> bool:
    """Whether a sender was lifted by more than two honest senders may be apart."""
    return sender.watermark is not None and sender.lifted - sender.watermark > grace


class CrossSessionSender(BatchProcessor[SessionPartition]):
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

    def _take_messages(self, touched: Mapping[int, SessionPartition]) -> Callable[[], Awaitable[None]]:
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

    def _moves_clock(self, number: int, partition: SessionPartition) -> bool:
        """Whether the clock of a partition has moved since it was sent; if so, it is the one that is sent."""
        watermark = None if partition.watermark == -inf else partition.watermark
        read_until, sent = partition.read_until(self._read_until.get(number)), self._sent.get(number)
        if sent is not None and sent.watermark == watermark:
            step = self._settings.worker.idle_grace / CLOCKS
            if read_until is None or (sent.read_until is not None and read_until - sent.read_until < step):
                return False
        self._sent[number] = ClockMessage(number, watermark, steady_time(), read_until)
        return True


class ReceivingPartition:
    """Evaluates the events of all senders, each once, in the order of their times."""

    foreign_keys = 0

    def __init__(
        self,
        store: PartitionStore,
        judge: Judge,
        dead_letters: DeadLetterSink,
        limits: SessionLimits,
        *,
        senders: int,
        grace: float,
        now: Callable[[], float] = receiver_time,
    ) -> None:
        self._store = store
        self._dead_letters = dead_letters
        self._senders = senders
        self._grace = grace
        self._furthest = FurthestWatermarks(store.furthest, grace)
        clock = SharedClock(now, skew=limits.max_future_skew)
        self._judge = Judge(judge, limits, store=store, clock=clock)
        self._waiting: list[tuple[float, str, int, EventMessage]] = []
        self._stored: set[int] = set()  # offsets of waiting events that have a row
        stored = None if store.progress is None else store.progress.watermark
        if stored is not None and clock.is_credible(stored):  # an earlier version believed any stamp
            self._judge.watermark = stored
        self._restore()

    def _restore(self) -> None:
        """Load the waiting events.

        Rows beyond the applied offset are deleted: a crash left them, and their messages come again.
        """
        applied = max(self._store.applied.values(), default=-1)
        for key, value in self._store.scan(waiting_prefix(self._store.number)):
            offset = offset_of(key)
            self._stored.add(offset)
            if offset > applied:
                self._store.extra_rows[key] = None
                continue
            message = decode_message(value)
            if isinstance(message, EventMessage):
                self._wait(offset, message)

    def next_offset(self, topic: str) -> int | None:
        """Return the next offset to fold, or None when the partition has no record of the topic yet."""
        applied = self._store.applied.get(self._store.tag_of(topic))
        return None if applied is None else applied + 1

    def fold(self, topic: str, records: Sequence[Record], out: list[Finding]) -> None:
        """Receive messages in the order of their offsets; skip those that are in the state already."""
        tag = self._store.tag_of(topic)
        applied = self._store.applied.get(tag, -1)
        for record in records:
            if record.position > applied:
                self._receive(record, tag, out)
                applied = self._store.applied[tag] = record.position

    def _receive(self, record: Record, tag: int, out: list[Finding]) -> None:
        try:
            message = decode_message(record.value)
        except msgspec.MsgspecError as error:
            self._dead_letters.add(record, f"not written by a worker of this version: {error}")
            return
        sender = self._store.senders.setdefault(message.sender, SenderProgress())
        if isinstance(message, ClockMessage):
            self._hear_clock(message, sender)
            self._advance(record.position, tag, out)
        elif _is_new(message, sender):
            time = message.event.time
            is_late = time is not None and time < self._judge.watermark
            if is_late and is_stale(sender, self._grace):
                self._judge.counts.disbelieved_times += 1
            # What no clock will come to must not wait for it.
            if time is None or is_late or not self._judge.clock.is_credible(time):
                self._evaluate(message, record.position, tag, out)
            else:
                self._wait(record.position, message)
                self._store.extra_rows[waiting_key(self._store.number, record.position)] = record.value

    def _hear_clock(self, message: ClockMessage, sender: SenderProgress) -> None:
        """Take note of how far a sender has come, and lift it where nobody is to wait for it."""
        sender.has_clock = True
        if message.watermark is not None:
            sender.watermark = max(message.watermark, -inf if sender.watermark is None else sender.watermark)
            if message.wall:
                self._furthest.note(message.wall, sender.watermark)
        if message.read_until is None:
            return
        lifted, was_stale = self._furthest.at(message.read_until - self._grace), is_stale(sender, self._grace)
        if lifted is not None and lifted > sender.lifted:
            sender.lifted = lifted
        if is_stale(sender, self._grace) and not was_stale:
            _logger.warning(
                "the events of partition %d are stamped %.0f s behind those of others: rules that look across sessions "
                "do not wait for them; mend the clocks of its producers",
                message.sender,
                sender.lifted - (sender.watermark or 0.0),
            )

    def _wait(self, offset: int, message: EventMessage) -> None:
        heappush(self._waiting, (message.event.time or 0.0, message.event.session_id, offset, message))

    def _advance(self, cause: int, tag: int, out: list[Finding]) -> None:
        """Advance to the lowest clock of all senders: evaluate the events before it, and fire deadlines.

        ``cause`` is the offset of the message that moved a watermark.
        """
        senders = self._store.senders
        if sum(sender.has_clock for sender in senders.values()) < self._senders:
            return
        clocks = [clock for sender in senders.values() if (clock := clock_of(sender)) is not None]
        watermark = min(clocks, default=-inf)
        if watermark <= self._judge.watermark:
            return
        while self._waiting and self._waiting[0][0] < watermark:
            _, _, offset, message = heappop(self._waiting)
            self._evaluate(message, cause, tag, out)
            key = waiting_key(self._store.number, offset)
            if offset in self._stored:
                self._store.extra_rows[key] = None
            else:
                self._store.extra_rows.pop(key, None)
        out += self._judge.advance(watermark)

    def _evaluate(self, message: EventMessage, cause: int, tag: int, out: list[Finding]) -> None:
        if self._store.has_applied(message.key_id, tag, cause):
            return  # a crash came after the row of the key state was written
        out += self._judge.feed_key(message.key_id, message.event, message.turns, set(message.memory))

    def tick(self, grace: float, out: list[Finding]) -> bool:
        """Do nothing: the clock is that of the senders, and idle senders send their watermarks."""
        del grace, out
        return False

    def version_of(self, finding: Finding) -> str:
        """Return the version of the policy that found it."""
        del finding
        return self._judge.policy.version

    def snapshot(self) -> list[RowChange]:
        """Return the row changes that make everything received so far durable."""
        self._judge.commit()
        for key, value in self._store.extra_rows.items():
            if value is None:
                self._stored.discard(offset_of(key))
            else:
                self._stored.add(offset_of(key))
        watermark = self._judge.watermark
        return self._store.snapshot(None if watermark == -inf else watermark, 0.0)


def _is_new(message: EventMessage, sender: SenderProgress) -> bool:
    """Whether a message is beyond the sender's last one; if so, it becomes the last. A crash makes senders repeat."""
    last = sender.positions.get(message.tag)
    if last is not None and message.position <= last:
        return False
    sender.positions[message.tag] = message.position
    return True
