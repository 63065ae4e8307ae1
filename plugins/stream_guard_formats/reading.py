"""Fields of parsed records: a list, an object, a text, a number or a time, whatever the producer sent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import xxhash

from stream_guard import DecodeError, Json

# The year 10000: beyond it no clock is one.
_LATEST: Final = 253_402_300_800.0
_NAMES: Final = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}
_SHOWN: Final = 60


def as_object(data: Json, what: str) -> dict[str, Json]:
    """Return the value if it is an object, or raise DecodeError. ``what`` names what was expected."""
    if isinstance(data, dict):
        return data
    raise DecodeError(f"{what} is a JSON object, this is {name_of(data)}")


def name_of(value: Json) -> str:
    """Return what sort of JSON value this is, in words."""
    return _NAMES.get(type(value), "a number")


def excerpt(value: Json) -> str:
    """Return a short, printable piece of a value of the producer's, for a reason that people read on terminals."""
    shown = repr(value)[:_SHOWN]
    return shown if shown.isprintable() else ascii(shown)


def objects_in(data: dict[str, Json], field: str, what: str) -> list[dict[str, Json]]:
    """Return the field's list of objects; a field that is absent or null has none, and anything else is refused."""
    found = data.get(field)
    if found is None:
        return []
    if not isinstance(found, list):
        raise DecodeError(f'"{field}" must be a list of {what}, this is {name_of(found)}')
    return objects_of(found, field, what)


def objects_of(found: Sequence[Json], field: str, what: str) -> list[dict[str, Json]]:
    """Return the list as it is, or raise DecodeError when something in it is not an object."""
    for number, one in enumerate(found):
        if not isinstance(one, dict):
            raise DecodeError(f'"{field}[{number}]" must be an object ({what}), this is {name_of(one)}')
    return list(found)


def text_at(data: dict[str, Json], *fields: str) -> str:
    """Return the first of the fields that holds a text or a whole number, as text; empty when none does."""
    for field in fields:
        found = data.get(field)
        if isinstance(found, str) and found:
            return found
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
    return ""


def object_at(data: dict[str, Json], field: str) -> dict[str, Json]:
    """Return the field's object, an empty one where there is none."""
    found = data.get(field)
    return found if isinstance(found, dict) else {}


def number_at(data: dict[str, Json], field: str) -> float | None:
    """Return the field's number, also where it is written as a text, or None."""
    found = data.get(field)
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        return None
    try:
        number = float(found)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def seconds(written: Json) -> float | None:
    """Return an ISO 8601 time as seconds since 1970, or None where it is none; without a zone it is UTC."""
    if not isinstance(written, str) or len(written) > 40:
        return None
    try:
        moment = datetime.fromisoformat(written)
        found = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return found if 0.0 <= found < _LATEST else None


def digest(value: bytes) -> str:
    """Return sixteen characters that stand for the bytes: the same in every replay."""
    return xxhash.xxh3_64_hexdigest(value)
