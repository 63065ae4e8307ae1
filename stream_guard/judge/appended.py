"""A blob with changes behind it, as one value: what a store returns of a row to which changes were appended.

A row without changes is its blob alone. So rows of stores that append nothing, and of earlier versions, are read alike.
"""

from __future__ import annotations

import struct
from typing import Final

_JOINED: Final = b"\xc1"  # msgpack never begins with it, so no blob does
_LENGTH: Final = struct.Struct("<I")


def frame(part: bytes) -> bytes:
    """Return a part behind its length, so that parts can stand one after the other."""
    return _LENGTH.pack(len(part)) + part


def append_all(value: bytes, frames: bytes) -> bytes:
    """Return a value with framed changes behind it."""
    if not frames or value.startswith(_JOINED):
        return value + frames
    return _JOINED + frame(value) + frames


def split(value: bytes) -> list[bytes]:
    """Return the blob of a value, and the changes behind it in their order; ValueError for a value that was cut."""
    if not value.startswith(_JOINED):
        return [value]
    parts: list[bytes] = []
    place = len(_JOINED)
    while place < len(value):
        begin = place + _LENGTH.size
        if begin > len(value):
            raise ValueError("a change ends before its length does")
        (length,) = _LENGTH.unpack_from(value, place)
        place = begin + length
        if place > len(value):
            raise ValueError("a change is shorter than it says")
        parts.append(value[begin:place])
    return parts


def append(value: bytes, change: bytes) -> bytes:
    """Return a value with one more change behind it."""
    return append_all(value, frame(change))


def measure(value: bytes) -> tuple[int, int]:
    """Return how many bytes the blob of a value has, and the changes behind it."""
    if not value.startswith(_JOINED):
        return len(value), 0
    (length,) = _LENGTH.unpack_from(value, len(_JOINED))
    return length, len(value) - len(_JOINED) - _LENGTH.size - length
