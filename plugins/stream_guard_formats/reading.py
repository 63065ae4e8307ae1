"""Fields of parsed records, read as lists, objects, texts, numbers or times, with checks of their types."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import xxhash

from stream_guard import DecodeError, Json, Record

# The year 10000: a later time is an error of the producer.
_LATEST: Final = 253_402_300_800.0
_NAMES: Final = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}
_SHOWN: Final = 60

digest: Final[Callable[[bytes], str]] = xxhash.xxh3_64_hexdigest
"""Returns a digest of sixteen characters."""


def as_object(data: Json, what: str) -> dict[str, Json]:
    """Return the value if it is an object, or raise DecodeError. ``what`` names what was expected."""
    if isinstance(data, dict):
        return data
    raise DecodeError(f"{what} is a JSON object, this is {name_of(data)}")


def name_of(value: Json) -> str:
    """Return the type of a JSON value, in words."""
    return _NAMES.get(type(value), "a number")


def excerpt(value: Json) -> str:
    """Return the start of a producer's value, safe to print on a terminal, for the reason of a DecodeError."""
    shown = repr(value)[:_SHOWN]
    return shown if shown.isprintable() else ascii(shown)


def objects_in(data: dict[str, Json], field: str, what: str) -> list[dict[str, Json]]:
    """Return the field's list of objects, empty if it is absent or null. Raise DecodeError for any other value."""
    found = data.get(field)
    if found is None:
        return []
    if not isinstance(found, list):
        raise DecodeError(f'"{field}" must be a list of {what}, this is {name_of(found)}')
    return objects_of(found, field, what)


def objects_of(found: Sequence[Json], field: str, what: str) -> list[dict[str, Json]]:
    """Return the list, or raise DecodeError if an item is not an object."""
    for item in found:
        if not isinstance(item, dict):
            raise DecodeError(f'"{field}[{found.index(item)}]" must be an object ({what}), this is {name_of(item)}')
    return found if isinstance(found, list) else list(found)


def text_at(data: dict[str, Json], *fields: str) -> str:
    """Return the first of the fields that holds a text or a whole number, as text, or an empty text."""
    for field in fields:
        found = data.get(field)
        if isinstance(found, str) and found:
            return found
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
    return ""


def object_at(data: dict[str, Json], field: str) -> dict[str, Json]:
    """Return the field's object, or an empty object."""
    found = data.get(field)
    return found if isinstance(found, dict) else {}


def has_fields(data: Json, *fields: str) -> bool:
    """Whether a parsed record is an object with all of these fields at its top."""
    return isinstance(data, dict) and all(field in data for field in fields)


def first_object(data: Json) -> dict[str, Json]:
    """Return the first item of a list if that is an object, or an empty object."""
    return data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}


def number_at(data: dict[str, Json], field: str) -> float | None:
    """Return the field's number, which may be written as a text, or None."""
    return number_in(data.get(field))


def number_in(found: Json) -> float | None:
    """Return a number, which may be written as a text, or None."""
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        return None
    try:
        number = float(found)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def seconds(written: Json) -> float | None:
    """Return an ISO 8601 time as seconds since 1970, or None if it is no time. Without a zone it is UTC."""
    if not isinstance(written, str) or len(written) > 40:
        return None
    try:
        moment = datetime.fromisoformat(written)
        found = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return found if 0.0 <= found < _LATEST else None


# Lines of a known format that this version does not know: they are skipped, and counted.


_MOST_INPUTS: Final = 1000
_MOST_SORTS: Final = 50  # of one input; a producer may invent as many as it likes

_LONGEST: Final = 100

_logger = logging.getLogger(__name__)


class SkippedLines:
    """Counts skipped lines by input and by sort."""

    def __init__(self) -> None:
        self._inputs: dict[str, Counter[str]] = {}

    def add(self, record: Record, sort: str) -> None:
        """Count a line that was skipped."""
        if record.origin not in self._inputs and len(self._inputs) >= _MOST_INPUTS:
            del self._inputs[next(iter(self._inputs))]
        found, sort = self._inputs.setdefault(record.origin, Counter()), sort[:_LONGEST]
        found[sort if sort in found or len(found) < _MOST_SORTS else "others"] += 1

    @property
    def total(self) -> int:
        """How many lines were skipped since the last log."""
        return sum(found.total() for found in self._inputs.values())

    def log(self) -> None:
        """Log the counts of each input, and forget them."""
        for origin, found in self._inputs.items():
            sorts = ", ".join(f"{excerpt(sort)} {count}" for sort, count in found.most_common())
            _logger.warning(
                "%s: %d lines of a sort that is not known were skipped: %s", origin or "input", found.total(), sorts
            )
        self._inputs.clear()
