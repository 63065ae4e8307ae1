"""A glance at native records: whose they are, from the fields before their session, without decoding them.

``native_glance.c`` is the compiled build's.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import Final
from zlib import crc32

from stream_guard import EVENT_KINDS, Record

_SPACE: Final = r"[\x20\t\r\n]*+"
# The fields at the top of a record up to its session, a plain ASCII id: the kind, then values that hold no others.
_HEAD: Final = re.compile(
    rf"""\{{ {_SPACE} "kind" {_SPACE} : {_SPACE} "(?:{"|".join(EVENT_KINDS)})" {_SPACE} , {_SPACE}
    (?: (?!"session_id") "[^"\\]*+" {_SPACE} : {_SPACE}
        (?: "[^"\\]*+" | [-+0-9.eE]++ | true | false | null ) {_SPACE} , {_SPACE} )*+
    "session_id" {_SPACE} : {_SPACE} "([\x20!#-\[\]-~]++)" """.encode(),
    re.VERBOSE,
)


def glance(records: list[Record], start: int, stop: int, ours: bytes) -> tuple[list[int], int]:
    """Return which records, from ``start`` on, are certainly of our sessions, and where the first uncertain one stands.

    That is ``stop`` where all are certain: those between are of others. ``ours`` has a byte for each bucket of
    sessions, by the checksum of their ids; 0 for those of others. A record of another origin than the first one, or
    with headers, is not certain, and there must be a first one.
    """
    origin, own = records[start].origin, list[int]()
    for at in range(start, stop):
        record = records[at]
        is_ours = _is_ours(record.value, ours) if not record.headers and record.origin == origin else None
        if is_ours is None:
            return own, at
        if is_ours:
            own.append(at)
    return own, stop


def glance_lines(chunk: bytes, start: int, ours: bytes) -> bytes:
    """Return a byte for each line of a chunk from ``start`` on, up to the first one that is not certain.

    It is 1 for a line of our sessions, and 0 for one of others. What follows the last newline is no line.
    """
    told = bytearray()
    for value in BytesIO(chunk[start : chunk.rfind(b"\n") + 1]).readlines():
        is_ours = _is_ours(value, ours)
        if is_ours is None:
            break
        told.append(is_ours)
    return bytes(told)


def _is_ours(value: bytes, ours: bytes) -> bool | None:
    """Return whether a record is of our sessions; None where a glance does not tell."""
    head = _HEAD.match(value)
    if head is None:
        return None
    # A call in a record that cannot be decoded belongs to the session that is named last, wherever that is.
    find, end = value.find, head.end()
    if find(b'"session', end) >= 0 or find(b'"thread_id"', end) >= 0 or find(b'"conversation_id"', end) >= 0:
        return None
    return ours[crc32(head[1]) % len(ours)] != 0
