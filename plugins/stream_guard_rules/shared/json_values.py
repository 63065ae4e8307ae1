"""JSON values: their digests, and the texts in them."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from hashlib import blake2b
from math import isfinite
from sys import float_info
from typing import Final

import stream_guard as sg

# Digests of JSON values: sixteen characters, the same for equal values.

_SHORT: Final = 12
_LARGEST: Final = int(float_info.max)


def digest(value: sg.Json) -> str:
    """Return a digest that agrees with ``json_equal``: 1 is 1.0, but true is not 1 and "5" is not 5.

    It is cryptographic: the agent that a rule guards against may choose the value.
    """
    hashed = blake2b(digest_size=12)
    waiting = [value]
    while waiting:  # no recursion, so depth cannot hurt
        item = waiting.pop()
        if isinstance(item, dict):
            hashed.update(b"{%d" % len(item))
            for key in sorted(item):
                waiting += (item[key], key)
        elif isinstance(item, list):
            hashed.update(b"[%d" % len(item))
            waiting += item
        else:
            hashed.update(_scalar(item))
    return urlsafe_b64encode(hashed.digest()).decode()


def number(value: sg.Json) -> float | None:
    """Return a number as a float, a whole one that no float holds as the largest; None for a flag, a text or NaN."""
    if type(value) is int:
        return float(min(max(value, -_LARGEST), _LARGEST))
    return value if isinstance(value, float) and isfinite(value) else None


def short_digest(value: sg.Json) -> str:
    """Return the first twelve characters of a digest: enough to tell the few values that one state keeps apart."""
    return digest(value)[:_SHORT]


def digest_of_found(value: sg.Json) -> str:
    """Return the short digest of what a path leads to; empty where it leads to nothing."""
    return "" if value is sg.MISSING else short_digest(value)


def _scalar(value: sg.Json) -> bytes:
    """Return the value with its type and length, so that no two sequences of values give the same bytes."""
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
        return b"s%d:" % len(data) + data
    if isinstance(value, bool) or value is None:
        return b"c%r;" % value
    if isinstance(value, float) and not value.is_integer():
        return b"f%r;" % value
    # Hexadecimal: Python refuses to write very long integers in decimal.
    return b"i%x;" % int(value)


# Texts in JSON values, however deep they stand: a list that grows while it is walked takes the place of recursion.

_MOST_BITS: Final = 13_000  # Python refuses to write longer integers in decimal


def _parts_of(value: sg.Json) -> Iterator[sg.Json]:
    """Yield a JSON value and every value inside it."""
    waiting = [value]
    for item in waiting:
        yield item
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def strings_in(value: sg.Json) -> Iterator[str]:
    """Yield every string of a JSON value; the keys of objects are left out."""
    for item in _parts_of(value):
        if isinstance(item, str):
            yield item


def texts_in(value: sg.Json) -> Iterator[str]:
    """Yield every string and number of a JSON value as text; the keys of objects are left out."""
    for item in _parts_of(value):
        if isinstance(item, str):
            yield item
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield f"{item:x}" if isinstance(item, int) and item.bit_length() > _MOST_BITS else str(item)
