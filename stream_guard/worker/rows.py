"""The rows of the worker's table: one for each session, and one for each partition with its progress.

A session's row has the offsets that are applied in it. A session that has ended keeps a row without a state until the
progress row of its partition covers those offsets. After a crash in between, its events are read again; the row keeps
them from opening the session anew.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import inf
from typing import Final, TypeAlias
from zlib import crc32

import msgspec

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
