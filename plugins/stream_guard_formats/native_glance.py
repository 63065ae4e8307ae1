"""A glance at native records: whose they are, from the fields before their session, without decoding them.

``native_glance.c`` is the compiled build's.
"""

from __future__ import annotations

import re
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
    origin, buckets, own = records[start].origin, len(ours), list[int]()
    match = _HEAD.match
    for at in range(start, stop):
        record = records[at]
        value = record.value
        head = match(value)
        if head is None or record.headers or record.origin != origin:
            return own, at
        # A call in a record that cannot be decoded belongs to the session that is named last, wherever that is.
        find, end = value.find, head.end()
        if find(b'"session', end) >= 0 or find(b'"thread_id"', end) >= 0 or find(b'"conversation_id"', end) >= 0:
            return own, at
        if ours[crc32(head[1]) % buckets]:
            own.append(at)
    return own, stop
