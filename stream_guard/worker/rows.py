"""The rows of the worker's table: one for each session, and one for each partition with its progress.

A session's row has the offsets that are applied in it. A session that has ended keeps a row without a state until the
progress row of its partition covers those offsets. After a crash in between, its events are read again; the row keeps
them from opening the session anew.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Final, TypeAlias, TypeVar
from zlib import crc32

import msgspec

from stream_guard.errors import StoreError
from stream_guard.judge.model import resolved
from stream_guard.settings import Settings

VERSION: Final = 1
ROOM: Final = 2**20  # bytes around what a row or a message is about
# The families of rows: the byte behind the partition in a key.
SESSIONS: Final = 1  # states of sessions; their progress row has the next number
KEY_STATES: Final = 3  # states of rules that look across sessions; their progress row has the next number
_WAITING: Final = 5  # events that wait for the watermark of all senders
_OWNER: Final = 7  # the row that begins an epoch
_TOPICS: Final = 8  # the row with the topics that a partition has read
_IMPORT: Final = 9  # the row that is there while states are imported
_POLICY: Final = 10  # the row with the rollout that a partition is judged by
_PARTITION: Final = struct.Struct(">IB")
_OFFSET: Final = struct.Struct(">Q")

Offsets: TypeAlias = dict[int, int]
"""The last applied offset of each topic, by the topic's tag; -1 or a missing tag means none."""


@resolved
class SessionRow(msgspec.Struct, array_like=True, gc=False):
    """A session. It has ended when the state is empty. The order of the fields is the format."""

    version: int
    applied: Offsets
    deadline: float | None
    state: bytes


EventPosition: TypeAlias = tuple[int, int, int]
"""The source of a cross-session message: the record's offset, the event's number in it, the message's number there."""


@resolved
class SenderProgress(msgspec.Struct, array_like=True, gc=False):
    """The last message that was received from a sending partition. The order of the fields is the format."""

    positions: dict[int, EventPosition] = {}  # by the tag of the event's topic
    watermark: float | None = None
    has_clock: bool = False  # a clock message was received
    lifted: float = -inf  # nobody waits for its events before this time, whatever its watermark is


WatermarkSample: TypeAlias = tuple[float, float]
"""A wall time, and the watermark that the furthest sender had then."""


@resolved
class ProgressRow(msgspec.Struct, array_like=True, gc=False):
    """The progress of a partition: the rows before this one contain every record up to these offsets.

    The order of the fields is the format.
    """

    version: int
    applied: Offsets
    watermark: float | None
    wall: float  # the wall time that belongs to the watermark
    origins: Offsets = {}  # the last applied re-keyed record of each source partition
    senders: dict[int, SenderProgress] = {}  # by sending partition
    furthest: list[WatermarkSample] = []  # the last of them, the first one first


@resolved
class KnownTopic(msgspec.Struct, array_like=True, frozen=True):
    """A topic that a partition has read. The order of the fields is the format."""

    topic_id: bytes  # empty when the broker had no ids
    incarnation: int = 0  # how often another topic was accepted under the name


@resolved
class PolicyRow(msgspec.Struct, array_like=True, gc=False):
    """By which rollout a partition is judged, and from which offsets on. The order of the fields is the format."""

    version: int
    rollout: int
    offsets: dict[str, int]  # by topic
    policy: str = ""  # its version, by which another topic of policies has it under another number


RowT = TypeVar("RowT", SessionRow, ProgressRow)

_encoder: Final = msgspec.msgpack.Encoder()
encode_row = _encoder.encode
decode_session: Final = msgspec.msgpack.Decoder(SessionRow).decode
decode_progress: Final = msgspec.msgpack.Decoder(ProgressRow).decode
decode_policy: Final = msgspec.msgpack.Decoder(PolicyRow).decode
decode_topics: Final = msgspec.msgpack.Decoder(dict[str, KnownTopic]).decode


def most_bytes(settings: Settings) -> int:
    """Return how large a row may be, and a record that workers pass to each other: a session, or a record as it came.

    The topics of a group take so much, and a little more for keys and headers.
    """
    return max(settings.sessions.max_session_bytes, settings.decode.max_record_bytes) + ROOM


def topic_tag(topic: str, incarnation: int = 0) -> int:
    """Return the number that stands for a topic, in one of its incarnations, in rows and messages."""
    return crc32(incarnation_name(topic, incarnation).encode())


def incarnation_name(topic: str, incarnation: int) -> str:
    """Return the name of a topic in one of its incarnations."""
    return f"{topic}#{incarnation}" if incarnation else topic  # no name of a topic has a #


def known_topics(rows: Mapping[bytes, bytes], partition: int) -> dict[str, KnownTopic]:
    """Return the topics that a partition has read, by name."""
    row = rows.get(topics_key(partition))
    return {} if row is None else decode_topics(row)


def session_prefix(partition: int, family: int = SESSIONS) -> bytes:
    """Return the prefix of the keys of a partition's sessions, or of its key states."""
    return _PARTITION.pack(partition, family)


def session_key(partition: int, session_id: str, family: int = SESSIONS) -> bytes:
    """Return the key of a session's row. It begins with the partition, so that a scan can select by it."""
    return session_prefix(partition, family) + session_id.encode("utf-8", "surrogatepass")


def session_of(key: bytes) -> str:
    """Return the session of a row's key."""
    return key[_PARTITION.size :].decode("utf-8", "surrogatepass")


def progress_key(partition: int, family: int = SESSIONS) -> bytes:
    """Return the key of a partition's progress row."""
    return _PARTITION.pack(partition, family + 1)


def owner_key(partition: int) -> bytes:
    """Return the key of the row that begins an epoch of a partition."""
    return _PARTITION.pack(partition, _OWNER)


def topics_key(partition: int) -> bytes:
    """Return the key of the row with the topics that a partition has read."""
    return _PARTITION.pack(partition, _TOPICS)


def partition_prefix(partition: int) -> bytes:
    """Return the prefix of all keys of a partition."""
    return _PARTITION.pack(partition, 0)[:-1]


def import_key(partition: int) -> bytes:
    """Return the key of the row that is there while the states of a partition are imported."""
    return _PARTITION.pack(partition, _IMPORT)


def family_of(key: bytes) -> int:
    """Return the family of a row's key."""
    return key[_PARTITION.size - 1]


def policy_key(partition: int) -> bytes:
    """Return the key of the row with the rollout that a partition is judged by."""
    return _PARTITION.pack(partition, _POLICY)


def waiting_prefix(partition: int) -> bytes:
    """Return the prefix of the keys of a partition's waiting events."""
    return _PARTITION.pack(partition, _WAITING)


def waiting_key(partition: int, offset: int) -> bytes:
    """Return the key of a waiting event, by the offset of its message."""
    return waiting_prefix(partition) + _OFFSET.pack(offset)


def offset_of(key: bytes) -> int:
    """Return the offset in the key of a waiting event."""
    (offset,) = _OFFSET.unpack_from(key, _PARTITION.size)
    return int(offset)


def latest(first: Mapping[int, int], second: Mapping[int, int]) -> Offsets:
    """Return the higher offset of each topic."""
    merged = dict(first)
    for tag, offset in second.items():
        if offset > merged.get(tag, -1):
            merged[tag] = offset
    return merged


# The session store of one partition, over the rows of the worker's table.

RowChange: TypeAlias = tuple[bytes, bytes | None]
"""A key of the table and its new value; None deletes the row."""


class PartitionStore:
    """Reads the rows of a partition and collects changes. The owner of the table writes them.

    ``rows`` are those of the partition, as they are recovered. ``snapshot`` returns changes in the order in which they
    must be written: the progress row is last and proves the others. Before the next snapshot, the changes of the last
    one must be acknowledged and in ``rows``. Until then the store reads them from memory.

    A row of more than ``most`` bytes is refused by every broker, each time. It is written as one that has ended, and
    ``too_large`` is called with its name and size.
    """

    def __init__(
        self,
        partition: int,
        rows: Mapping[bytes, bytes],
        family: int = SESSIONS,
        *,
        most: float = inf,
        too_large: Callable[[str, int], None] = lambda _name, _size: None,
    ) -> None:
        self.number = partition
        self._family = family
        self._rows = rows
        self._most, self._too_large = most, too_large
        self._pending: dict[bytes, tuple[bytes, float | None]] = {}  # an empty state: the session has ended
        self._in_flight: dict[bytes, tuple[bytes, float | None]] = {}  # of the last snapshot: may not be in the rows
        self._ended: dict[bytes, Offsets] = {}  # ended sessions that still have a row, and the offsets in it
        self.progress = self._read_progress()
        self.applied: Offsets = {} if self.progress is None else dict(self.progress.applied)
        self.origins: Offsets = {} if self.progress is None else dict(self.progress.origins)
        self.senders: dict[int, SenderProgress] = {} if self.progress is None else dict(self.progress.senders)
        self.furthest: list[WatermarkSample] = [] if self.progress is None else list(self.progress.furthest)
        self.extra_rows: dict[bytes, bytes | None] = {}  # other changes, written after the sessions
        self._incarnations = {
            name: known.incarnation for name, known in known_topics(rows, partition).items() if known.incarnation
        }
        for name in self._incarnations:
            self.applied.setdefault(self.tag_of(name), -1)  # read from its first record, whatever is committed
        self._snapshot_applied: Offsets = dict(self.applied)
        self.horizon: Offsets = {}  # the highest offset in any session's row; a crash can leave it ahead of applied
        self._found: list[tuple[str, float | None]] | None = []  # live sessions, until the first change
        self._scan_sessions()

    def tag_of(self, topic: str) -> int:
        """Return the number that stands for a topic in rows and messages, as long as it is the same topic."""
        return topic_tag(topic, self._incarnations.get(topic, 0))

    def get(self, session_id: str) -> bytes | None:
        """Return the state that was put last, or None."""
        key = session_key(self.number, session_id, self._family)
        pending = self._pending.get(key) or self._in_flight.get(key)
        if pending is not None:
            return pending[0] or None
        row = self._rows.get(key)
        return None if row is None else self._read(row).state or None

    def put(self, session_id: str, blob: bytes, deadline: float | None) -> None:
        """Write the state with the next snapshot."""
        self._found = None
        self._pending[session_key(self.number, session_id, self._family)] = (blob, deadline)

    def drop(self, session_id: str) -> None:
        """End the session with the next snapshot. A session without a row gets one too: its events are applied."""
        self._found = None
        self._pending[session_key(self.number, session_id, self._family)] = (b"", None)

    def deadlines(self) -> Iterator[tuple[str, float | None]]:
        """Yield every live session with its deadline."""
        if self._found is not None:
            yield from self._found  # whoever opens the partition asks several times, and a million rows take seconds
            return
        prefix = session_prefix(self.number, self._family)
        for key, raw in self._rows.items():
            if key.startswith(prefix) and key not in self._pending and (row := self._read(raw)).state:
                yield session_of(key), row.deadline
        for key, (state, deadline) in self._pending.items():
            if state:
                yield session_of(key), deadline

    def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return the recovered rows whose keys have the prefix."""
        return [(key, value) for key, value in self._rows.items() if key.startswith(prefix)]

    def has_applied(self, session_id: str, tag: int, offset: int) -> bool:
        """Whether the session's row contains an offset that the progress row does not cover."""
        if offset > self.horizon.get(tag, -1):
            return False
        row = self._rows.get(session_key(self.number, session_id, self._family))
        return row is not None and offset <= self._read(row).applied.get(tag, -1)

    @property
    def changed(self) -> bool:
        """Whether a snapshot would write more than the progress row."""
        return bool(self._pending)

    def snapshot(self, watermark: float | None, wall: float) -> list[RowChange]:
        """Return the changes since the last snapshot. All of them must be written, in this order."""
        ahead = not _covers(self.applied, self.horizon)
        changes: list[RowChange] = [(key, None) for key in self._expire_ended()]
        self._snapshot_applied = dict(self.applied)
        for key, (state, deadline) in self._pending.items():
            applied = self._applied_of(key) if ahead else self._snapshot_applied
            row = encode_row(SessionRow(VERSION, applied, deadline, state))
            fits = len(row) <= self._most
            if not fits:
                self._too_large(session_of(key), len(row))
                self._pending[key] = (b"", None)
                row = encode_row(SessionRow(VERSION, applied, None, b""))
            changes.append((key, row))
            if not state or not fits:
                self._ended[key] = applied
        self._pending, self._in_flight = {}, self._pending
        changes += self.extra_rows.items()
        self.extra_rows.clear()
        progress = ProgressRow(
            VERSION, self._snapshot_applied, watermark, wall, self.origins, self.senders, self.furthest
        )
        changes.append((progress_key(self.number, self._family), encode_row(progress)))
        return changes

    def _expire_ended(self) -> list[bytes]:
        """Return the rows of ended sessions to delete: those whose offsets the last progress row covers."""
        for key in self._ended.keys() & self._pending.keys():
            del self._ended[key]  # opened anew
        expired = [key for key, applied in self._ended.items() if _covers(self._snapshot_applied, applied)]
        for key in expired:
            del self._ended[key]
        return expired

    def _applied_of(self, key: bytes) -> Offsets:
        """Return the offsets that a session's new row contains; never less than its old row."""
        row = self._rows.get(key)
        return self._snapshot_applied if row is None else latest(self._snapshot_applied, self._read(row).applied)

    def _scan_sessions(self) -> None:
        prefix, found = session_prefix(self.number, self._family), list[tuple[str, float | None]]()
        last: Offsets = {}
        for key, raw in self._rows.items():
            if key.startswith(prefix):
                row = self._read(raw)
                if row.applied != last:  # most rows were written with those before them
                    last, self.horizon = row.applied, latest(self.horizon, row.applied)
                if row.state:
                    found.append((session_of(key), row.deadline))
                else:
                    self._ended[key] = row.applied
        self._found = found

    def _read_progress(self) -> ProgressRow | None:
        raw = self._rows.get(progress_key(self.number, self._family))
        return None if raw is None else self._decode(raw, decode_progress)

    def _read(self, raw: bytes) -> SessionRow:
        return self._decode(raw, decode_session)

    def _decode(self, raw: bytes, decode: Callable[[bytes], RowT]) -> RowT:
        try:
            row = decode(raw)
        except msgspec.MsgspecError as error:
            raise self._unreadable(error) from None
        if row.version != VERSION:
            raise self._unreadable(f"version {row.version}")
        return row

    def _unreadable(self, found: object) -> StoreError:
        return StoreError(
            f"the state of partition {self.number} was written by another version of stream_guard "
            f"(this one reads version {VERSION}; {found}); run that version, or begin anew with another group"
        )


def _covers(offsets: Mapping[int, int], others: Mapping[int, int]) -> bool:
    return offsets is others or all(offset <= offsets.get(tag, -1) for tag, offset in others.items())
