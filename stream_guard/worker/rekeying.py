"""Re-keying: records that stand under another key than their session's go through a topic where they stand under it.

A record is passed on as it came, once for each session that it speaks of. It carries where it stood before. A
worker that dies may pass records on twice; who judges them knows, for every partition they came from, how far
that one had come, and passes over what is not beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from stream_guard.engine import Engine
from stream_guard.errors import DecodeError
from stream_guard.kafka.client import home_of
from stream_guard.kafka.writer import Outgoing
from stream_guard.model import Event, Finding
from stream_guard.observability.counts import Counts
from stream_guard.ports import Decoder, Record
from stream_guard.worker.delivery import Delivery, PendingDeadLetters
from stream_guard.worker.fetched_records import Batch, TopicPartition
from stream_guard.worker.kafka.outbox import Outbox
from stream_guard.worker.partition import Partition

FROM: Final = "stream_guard_from"
_BITS: Final = 16  # of the number that says how far a partition had come; the others are the offset's
_MOST: Final = (1 << _BITS) - 1


class RecordOrigin(NamedTuple):
    """Where a record stood before it was passed on."""

    topic: str
    partition: int
    offset: int
    ordinal: int = 0  # of the session, where the record speaks of several
    session_id: str = ""  # the only one it is meant for, in that case


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(RecordOrigin).decode


class Rekeyer:
    """Passes the records of topics on, under the ids of their sessions; what cannot be read is buried here."""

    def __init__(
        self,
        decoder: Decoder,
        delivery: Delivery,
        outbox: Outbox,
        *,
        partitions: int,
        counts: Counts,
    ) -> None:
        self._decoder = decoder
        self._delivery = delivery
        self._buried = PendingDeadLetters()
        self._outbox = outbox
        self._partitions = partitions
        self._counts = counts
        self._next: dict[TopicPartition, int] = {}

    def next_offset(self, place: TopicPartition) -> int | None:
        """Return the offset that must come next; None says that what was committed is the place to begin."""
        return self._next.get(place)

    async def judge(self, batch: Batch, settled: Callable[[Batch], None]) -> None:
        """Pass records on; return when they are acknowledged, and what could not be read is buried."""
        passed: dict[int, list[Outgoing]] = {}
        for place, records in batch.items():
            for record in records:
                if record.position >= self._next.get(place, 0):
                    self._pass_on(record, place, passed)
        await self._delivery.send((), self._buried.take())
        await self._outbox.send(passed)
        for place, records in batch.items():
            self._next[place] = max(self._next.get(place, 0), records[-1].position + 1)
        settled(batch)

    def _pass_on(self, record: Record, place: TopicPartition, passed: dict[int, list[Outgoing]]) -> None:
        try:
            sessions = sessions_of(self._decoder.decode(record))
        except DecodeError as error:
            self._buried.add(record, str(error))
            sessions = []
        if not sessions:  # whoever judges the others counts them
            self._counts.records += 1
        for ordinal, session_id in enumerate(sessions):
            came = RecordOrigin(*place, record.position, ordinal, session_id if len(sessions) > 1 else "")
            key = session_id.encode("utf-8", "surrogatepass")
            headers = (*record.headers, (FROM, _encode(came)))
            passed.setdefault(home_of(key, self._partitions), []).append(Outgoing(key, record.value, headers))

    async def tick(self, numbers: Sequence[int]) -> None:
        """Nothing ages here."""

    async def finish(self) -> None:
        """Nothing is left on its way here."""

    def use(self, engine: Engine) -> None:
        """Nothing is judged here."""

    def forget(self) -> None:
        """Let go of all partitions: from here on, what was committed counts."""
        self._next.clear()


def sessions_of(events: Sequence[Event]) -> list[str]:
    """Return the sessions of a record's events, each once; DecodeError for one that no session may be called."""
    names = list(dict.fromkeys(event.session_id for event in events))
    if len(names) > _MOST:
        raise DecodeError(f"the record speaks of {len(names)} sessions, and {_MOST} is the most; split it")
    if not all(name and name[0] != "\x00" for name in names):
        raise DecodeError("session_id is empty or begins with a NUL character; give every event its session's id")
    return names


class RekeyedPartition(Partition):
    """A partition of records that were passed on: each counts once, however often it was."""

    def _judge(self, record: Record, tag: int, out: list[Finding], *, behind: bool, only: str = "") -> None:
        del only  # the record says for whom it is meant
        try:
            came = _came(record)
        except DecodeError as error:
            self._dead_letters.add(record, str(error))
            return
        origin = crc32(f"{came.topic}/{came.partition}".encode())
        at = came.offset << _BITS | came.ordinal
        if at <= self._store.origins.get(origin, -1):
            self.redelivered += 1
            return
        self._store.origins[origin] = at
        bare = Record(record.value, record.origin, record.position, key=record.key, headers=record.headers[:-1])
        super()._judge(bare, tag, out, behind=behind, only=came.session_id)


class StatelessDecoder:
    """A decoder that holds nothing back: what a record speaks of was settled when it was passed on."""

    def __init__(self, decoder: Decoder) -> None:
        self.decode = decoder.decode


def _came(record: Record) -> RecordOrigin:
    """Return where a record stood before; DecodeError for one that nobody passed on."""
    name, value = record.headers[-1] if record.headers else ("", b"")
    try:
        if name == FROM:
            return _decode(value)
    except msgspec.MsgspecError:
        pass
    raise DecodeError("the record was not passed on by a worker; only workers may write to this topic")
