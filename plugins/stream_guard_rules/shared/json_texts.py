"""Texts in JSON values, however deep they stand: a list that grows while it is walked takes the place of recursion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import stream_guard as sg

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
