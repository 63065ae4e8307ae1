"""Cross-session rules on the partition of their key: events wait for the watermarks of all senders, then are evaluated.

Each sender's events come in that sender's order. Here they are evaluated in the order of their times: an event waits
until the watermarks of all senders have passed it, except those of stale senders (``stale_senders``). The result
depends on the records alone, not on batches, so that a run after a crash repeats what the crash interrupted. The one
exception is a stamp that is not credible by the receiver's own clock: its event is evaluated at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf

import msgspec

from stream_guard.decoding.reader import DeadLetterSink
from stream_guard.judge.clock import SharedClock
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding
from stream_guard.observability.steady_clock import receiver_time
from stream_guard.ports import Record
from stream_guard.settings import SessionLimits
from stream_guard.worker.cross_session.messages import ClockMessage, EventMessage, decode_message
from stream_guard.worker.cross_session.stale_senders import FurthestWatermarks, clock_of, is_stale
from stream_guard.worker.rows import PartitionStore, RowChange, SenderProgress, offset_of, waiting_key, waiting_prefix

_logger = logging.getLogger(__name__)


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
