"""Re-keying: records whose key is not their session's id go through a topic where it is.

A record is written there as it came, once for each of its sessions, with a header that names its source partition and
offset. A worker that crashes may write records twice. The reader keeps the last applied offset of each source
partition, and skips records at or below it.

Rules that look across sessions have to know how far the sources are read. So each source says so, now and then, in a
record to every partition behind its other records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from stream_guard.asking.desk import JudgedBatch
from stream_guard.commit import Commit, HeldLetters, Positions
from stream_guard.decoding.reader import EventReader
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding
from stream_guard.kafka.client import partition_of_key
from stream_guard.kafka.writer import Outgoing
from stream_guard.ports import Decoder, Record
from stream_guard.worker.partition import SessionPartition
from stream_guard.worker.rows import incarnation_name, known_topics
from stream_guard.worker.stages import FetchedBatch, Outbox, StateTable, TopicPartition

ORIGIN_HEADER: Final = "stream_guard_from"
_ORDINAL_BITS: Final = 16  # the low bits of a source position; the offset has the others
_MAX_SESSIONS: Final = (1 << _ORDINAL_BITS) - 1


class RecordOrigin(NamedTuple):
    """The source of a re-keyed record, and which of the source's sessions it is for."""

    topic: str
    partition: int
    offset: int
    ordinal: int = 0  # of the session, in a record of several
    session_id: str = ""  # the only session to evaluate, in a record of several


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(RecordOrigin).decode


class SourceClock(NamedTuple):
    """How far a source partition is read: all that was written to it before a wall time is passed on."""

    source: int
    sources: int  # how many there are
    read_until: float


_decode_clock: Final = msgspec.msgpack.Decoder(SourceClock).decode
_NOT_A_RECORD: Final = -1  # the offset in the origin of a clock; an earlier version skips it as applied


class Rekeyer:
    """Writes records to another topic, under the ids of their sessions. Unreadable records become dead letters here."""

    def __init__(
        self,
        decoder: Decoder,
        commit: Commit[JudgedBatch],
        outbox: Outbox,
        rows: StateTable,
        *,
        partitions: int,
        counts: Counts,
        clocks_every: float = inf,
    ) -> None:
        self._dead_letters = HeldLetters()
        self._reader = EventReader(decoder, self._dead_letters)
        self._commit = commit
        self._outbox = outbox
        self._partitions = partitions
        self._counts = counts
        self._rows = rows
        self._next: dict[TopicPartition, int] = {}
        self._clocks_every = clocks_every  # seconds
        self._told: dict[int, float] = {}  # by source partition: how far it said to be read
        self._names: dict[TopicPartition, str] = {}  # of the topics, in their present incarnations

    def next_offset(self, source: TopicPartition) -> int | None:
        """Return the next offset to process, or None to start at the committed offset."""
        return self._next.get(source)

    async def process(self, batch: FetchedBatch, on_durable: Callable[[FetchedBatch], None]) -> None:
        """Re-key a batch; return when its dead letters and its records are acknowledged."""
        rekeyed: dict[int, list[Outgoing]] = {}
        for source, records in batch.items():
            if source not in self._names:
                known = known_topics(self._rows.recovered(source.partition), source.partition).get(source.topic)
                self._names[source] = incarnation_name(source.topic, known.incarnation if known else 0)
            for record in records:
                if record.position >= self._next.get(source, 0):
                    self._rekey(record, source, rekeyed)

        async def write(_: Positions) -> None:
            await self._outbox.send(rekeyed)
            for source, records in batch.items():
                self._next[source] = max(self._next.get(source, 0), records[-1].position + 1)

        await self._commit.run_beside(None, write, lambda _: on_durable(batch), self._dead_letters.take())

    def _rekey(self, record: Record, source: TopicPartition, rekeyed: dict[int, list[Outgoing]]) -> None:
        sessions = list(dict.fromkeys(event.session_id for event in self._reader.read(record)))
        if len(sessions) > _MAX_SESSIONS:
            reason = f"the record speaks of {len(sessions)} sessions, and {_MAX_SESSIONS} is the most; split it"
            self._dead_letters.add(record, reason)
            sessions = []
        if not sessions:  # the other records are counted where they are evaluated
            self._counts.records += 1
        for ordinal, session_id in enumerate(sessions):
            origin = RecordOrigin(
                self._names[source], source.partition, record.position, ordinal, session_id if len(sessions) > 1 else ""
            )
            key = session_id.encode("utf-8", "surrogatepass")
            headers = (*record.headers, (ORIGIN_HEADER, _encode(origin)))
            rekeyed.setdefault(partition_of_key(key, self._partitions), []).append(Outgoing(key, record.value, headers))

    async def tick(self, partitions: Sequence[int], read_until: Mapping[int, float]) -> None:
        """Tell all partitions how far the sources are read."""
        del partitions  # re-keying has no clock of its own
        due = {
            source: wall
            for source, wall in read_until.items()
            if wall - self._told.get(source, -inf) >= self._clocks_every
        }
        if due and self._clocks_every < inf:
            clocks = [_clock_record(SourceClock(source, self._partitions, wall)) for source, wall in due.items()]
            await self._outbox.send(dict.fromkeys(range(self._partitions), clocks))
            self._told |= due

    async def flush(self) -> None:
        """Do nothing: a batch is durable when ``process`` returns."""

    def use(self, judge: Judge) -> None:
        """Do nothing: re-keying has no policy."""

    def drop_partitions(self) -> None:
        """Drop the offsets of all partitions: the committed ones count from here on."""
        self._next.clear()
        self._told.clear()
        self._names.clear()


class RekeyedPartition(SessionPartition):
    """A partition of re-keyed records. Each counts once, however often it was written."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._sources = 0  # how many there are; 0 before the first has said how far it is read
        self._heard: dict[int, float] = {}  # how far each source is read

    def read_until(self, measured: float | None) -> float | None:
        """Return how far the slowest source is read: what it passed on came before it said so."""
        del measured
        return min(self._heard.values()) if self._heard and len(self._heard) == self._sources else None

    def fold(self, topic: str, records: Sequence[Record], out: list[Finding]) -> None:
        """Fold records in the order of their offsets; take clocks out, which keep no partition from being idle."""
        clocks = [record for record in records if record.key is None and _is_clock(record)]
        if not clocks:
            super().fold(topic, records, out)
            return
        places = {record.position for record in clocks}
        others = [record for record in records if record.position not in places]
        if others:
            super().fold(topic, others, out)
        for record in clocks:
            clock = _decode_clock(record.value)
            self._sources = clock.sources
            self._heard[clock.source] = max(clock.read_until, self._heard.get(clock.source, -inf))
        tag = self._store.tag_of(topic)
        self._store.applied[tag] = max(records[-1].position, self._store.applied.get(tag, -1))

    def _judge(self, records: Sequence[Record], out: list[Finding]) -> None:
        """Judge the records that were not passed on before, each for the session that it was passed on for."""
        bare = [own for record in records if (own := self._taken_in(record)) is not None]
        self._counts.records += len(records) - len(bare)
        super()._judge(bare, out)
        self._admission.session_of.clear()

    def _taken_in(self, record: Record) -> Record | None:
        """Return a record as it was before it was passed on; None for one that came before, or from elsewhere."""
        origin = _origin_of(record)
        if origin is None:
            reason = "the record was not passed on by a worker; only workers may write to this topic"
            self._dead_letters.add(record, reason)
            return None
        source = crc32(f"{origin.topic}/{origin.partition}".encode())
        position = origin.offset << _ORDINAL_BITS | origin.ordinal
        if position <= self._store.origins.get(source, -1):
            return None
        self._store.origins[source] = position
        if origin.session_id:
            self._admission.session_of[record.position] = origin.session_id
        return Record(record.value, record.origin, record.position, key=record.key, headers=record.headers[:-1])


class StatelessDecoder(Decoder):
    """A decoder that holds no events back: the sessions of a record are known since it was re-keyed."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the record's events, or raise DecodeError."""
        return self._decoder.decode(record)


def _clock_record(clock: SourceClock) -> Outgoing:
    origin = RecordOrigin("", clock.source, _NOT_A_RECORD)
    return Outgoing(None, _encode(clock), ((ORIGIN_HEADER, _encode(origin)),))


def _is_clock(record: Record) -> bool:
    origin = _origin_of(record)
    return origin is not None and origin.offset == _NOT_A_RECORD


def _origin_of(record: Record) -> RecordOrigin | None:
    """Return the origin of a re-keyed record; None where no worker wrote it."""
    name, value = record.headers[-1] if record.headers else ("", b"")
    if name != ORIGIN_HEADER:
        return None
    try:
        return _decode(value)
    except msgspec.MsgspecError:
        return None
