"""What the worker's table holds: one row per session, and one per partition that says how far it came.

A session's row says up to which offsets its events are in it. A session that has ended leaves a row
without a state until the partition's own row has passed it: after a crash in between, its events come
again and must not open it anew.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, TypeAlias
from zlib import crc32

import msgspec

VERSION: Final = 1
SESSIONS: Final = 1  # rows of sessions; the number after it marks how far their partition came
KEY_STATES: Final = 3  # rows of what rules remember across sessions, likewise
_WAITING: Final = 5  # events that wait to be shown to those rules
_OWNER: Final = 7  # who owns a partition
_PARTITION: Final = struct.Struct(">IB")
_OFFSET: Final = struct.Struct(">Q")

Offsets: TypeAlias = dict[int, int]
"""The last offset that was applied, by the tag of its topic; -1 and a missing one mean none."""


class SessionRow(msgspec.Struct, array_like=True, gc=False):
    """A session as the table keeps it; without a state it has ended. The order of the fields is the format."""

    version: int
    applied: Offsets
    deadline: float | None
    state: bytes


Place: TypeAlias = tuple[int, int, int]
"""Where an event for a key state came from: offset of its record, number in the record, number among its like."""


class Sender(msgspec.Struct, array_like=True, gc=False):
    """How far a partition came that shows its events to this one."""

    reached: dict[int, Place] = {}  # by the tag of the topic
    watermark: float | None = None
    heard: bool = False  # of its clock


class ProgressRow(msgspec.Struct, array_like=True, gc=False):
    """How far a partition came: everything up to these offsets is in the rows that were written before this one."""

    version: int
    applied: Offsets
    watermark: float | None
    wall: float  # the time of the day at which the watermark stood there
    origins: Offsets = {}  # how far partitions had come whose records were passed on to this one
    senders: dict[int, Sender] = {}  # the partitions that show their events to this one


_encoder: Final = msgspec.msgpack.Encoder()
encode_row = _encoder.encode
decode_session: Final = msgspec.msgpack.Decoder(SessionRow).decode
decode_progress: Final = msgspec.msgpack.Decoder(ProgressRow).decode


def topic_tag(topic: str) -> int:
    """Return the number by which rows speak of a topic."""
    return crc32(topic.encode())


def session_prefix(partition: int, family: int = SESSIONS) -> bytes:
    """Return how the keys of a partition's sessions begin, or of its key states."""
    return _PARTITION.pack(partition, family)


def session_key(partition: int, session_id: str, family: int = SESSIONS) -> bytes:
    """Return the key of a session's row; the partition is part of it, so that a scan can tell them apart."""
    return session_prefix(partition, family) + session_id.encode("utf-8", "surrogatepass")


def session_of(key: bytes) -> str:
    """Return the session whose row has the key."""
    return key[_PARTITION.size :].decode("utf-8", "surrogatepass")


def progress_key(partition: int, family: int = SESSIONS) -> bytes:
    """Return the key of a partition's own row."""
    return _PARTITION.pack(partition, family + 1)


def owner_key(partition: int) -> bytes:
    """Return the key of the row that an owner of a partition begins with."""
    return _PARTITION.pack(partition, _OWNER)


def waiting_prefix(partition: int) -> bytes:
    """Return how the keys of a partition's waiting events begin."""
    return _PARTITION.pack(partition, _WAITING)


def waiting_key(partition: int, offset: int) -> bytes:
    """Return the key of an event that waits, by the offset it came with."""
    return waiting_prefix(partition) + _OFFSET.pack(offset)


def offset_of(key: bytes) -> int:
    """Return the offset that an event which waits came with."""
    (offset,) = _OFFSET.unpack_from(key, _PARTITION.size)
    return int(offset)


def latest(one: Mapping[int, int], other: Mapping[int, int]) -> Offsets:
    """Return the higher offset of each topic."""
    merged = dict(one)
    for tag, offset in other.items():
        if offset > merged.get(tag, -1):
            merged[tag] = offset
    return merged
