"""Rules that look across sessions, on the partition where a value of their key lives: events wait, then are judged.

Events come from all partitions, each in its own order. They are judged in the order of their times: one is held until
the clocks of all senders have passed it. What is judged depends on the records alone, and not on how they were
batched or on the time of the day, so that a crash repeats exactly what it interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf

import msgspec

from stream_guard.decoding.reader import DeadLetterSink
from stream_guard.engine import Engine
from stream_guard.model import Finding
from stream_guard.ports import Record
from stream_guard.sessions.table import SessionTable
from stream_guard.settings import SessionLimits
from stream_guard.worker.cross_session.messages import ClockMessage, EventMessage, decode_item
from stream_guard.worker.rows import Sender, offset_of, topic_tag, waiting_key, waiting_prefix
from stream_guard.worker.store import Change, PartitionStore


class ReceivingPartition:
    """Judges the events that partitions show, each once, in the order of their times."""

    foreign_keys = 0

    def __init__(
        self,
        store: PartitionStore,
        engine: Engine,
        dead_letters: DeadLetterSink,
        limits: SessionLimits,
        *,
        senders: int,
    ) -> None:
        self._store = store
        self._engine = engine
        self._dead_letters = dead_letters
        self._senders = senders
        self._table = SessionTable(engine, store, engine.counts, limits)
        self._waiting: list[tuple[float, str, int, EventMessage]] = []
        self._stored: set[int] = set()  # offsets of events that wait in rows
        if store.progress is not None and store.progress.watermark is not None:
            self._table.watermark = store.progress.watermark
        self._restore()

    def _restore(self) -> None:
        """Take up what waits; rows from beyond where the partition came are of a crash, and come again."""
        reached = max(self._store.applied.values(), default=-1)
        for key, value in self._store.scan(waiting_prefix(self._store.number)):
            offset = offset_of(key)
            self._stored.add(offset)
            if offset > reached:
                self._store.extra_rows[key] = None
                continue
            item = decode_item(value)
            if isinstance(item, EventMessage):
                self._wait(offset, item)

    def next_offset(self, topic: str) -> int | None:
        """Return the offset that must come next, or None when nothing of the topic was ever judged."""
        applied = self._store.applied.get(topic_tag(topic))
        return None if applied is None else applied + 1

    def fold(self, topic: str, records: Sequence[Record], out: list[Finding]) -> None:
        """Take records in the order of their offsets; what was taken before is passed over."""
        tag = topic_tag(topic)
        applied = self._store.applied.get(tag, -1)
        for record in records:
            if record.position > applied:
                self._take(record, tag, out)
                applied = self._store.applied[tag] = record.position

    def _take(self, record: Record, tag: int, out: list[Finding]) -> None:
        try:
            item = decode_item(record.value)
        except msgspec.MsgspecError as error:
            self._dead_letters.add(record, f"not written by a worker of this version: {error}")
            return
        sender = self._store.senders.setdefault(item.sender, Sender())
        if isinstance(item, ClockMessage):
            sender.heard = True
            if item.watermark is not None:
                sender.watermark = max(item.watermark, -inf if sender.watermark is None else sender.watermark)
            self._release(record.position, tag, out)
        elif _is_new(item, sender):
            time = item.event.time
            if time is None or time < self._table.watermark:
                self._show(item, record.position, tag, out)
            else:
                self._wait(record.position, item)
                self._store.extra_rows[waiting_key(self._store.number, record.position)] = record.value

    def _wait(self, offset: int, item: EventMessage) -> None:
        heappush(self._waiting, (item.event.time or 0.0, item.event.session_id, offset, item))

    def _release(self, cause: int, tag: int, out: list[Finding]) -> None:
        """Judge what nobody can send anything earlier than any more, and let deadlines fire."""
        senders = self._store.senders
        if sum(sender.heard for sender in senders.values()) < self._senders:
            return
        clocks = [sender.watermark for sender in senders.values() if sender.watermark is not None]
        watermark = min(clocks, default=-inf)
        if watermark <= self._table.watermark:
            return
        while self._waiting and self._waiting[0][0] < watermark:
            _, _, offset, item = heappop(self._waiting)
            self._show(item, cause, tag, out)
            key = waiting_key(self._store.number, offset)
            if offset in self._stored:
                self._store.extra_rows[key] = None
            else:
                self._store.extra_rows.pop(key, None)
        self._table.advance(watermark, out)

    def _show(self, item: EventMessage, cause: int, tag: int, out: list[Finding]) -> None:
        group = next((rules for rules in self._engine.cross_session if rules.owns(item.key_id)), None)
        if group is None or self._store.has_applied(item.key_id, tag, cause):
            return  # no rule has that key any more; or a crash came after the key state was written
        self._table.feed_key(group, item.key_id, item.event, item.turns, set(item.memory), out)

    def tick(self, grace: float, out: list[Finding]) -> bool:
        """Nothing ages by itself here: senders that fall silent tell how late it is."""
        del grace, out
        return False

    def seal(self) -> list[Change]:
        """Return what has to be written so that everything taken so far is safe."""
        self._table.commit()
        for key, value in self._store.extra_rows.items():
            if value is None:
                self._stored.discard(offset_of(key))
            else:
                self._stored.add(offset_of(key))
        watermark = self._table.watermark
        return self._store.seal(None if watermark == -inf else watermark, 0.0)


def _is_new(item: EventMessage, sender: Sender) -> bool:
    """Whether an event is beyond the last that its sender has shown; a sender that crashed begins again before it."""
    last = sender.reached.get(item.tag)
    if last is not None and item.at <= last:
        return False
    sender.reached[item.tag] = item.at
    return True
