"""The clock of an event: its hour and its day of the week, in UTC or in a time zone that the path names."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

# The years that a calendar has, less a day at either end for the zones.
_FIRST: Final = -62135510400.0
_LAST: Final = 253402214400.0
_PARTS: Final[dict[str, Callable[[datetime], int]]] = {"hour": lambda at: at.hour, "weekday": datetime.isoweekday}


def has_clock(seconds: float | None) -> bool:
    """Whether there is a time, and a calendar has it."""
    return seconds is not None and _FIRST <= seconds <= _LAST


def clock(text: str, steps: tuple[str, ...]) -> Callable[[float], int]:
    """Return what reads a time: ``time.hour`` is 0 to 23, ``time.weekday`` 1 (Monday) to 7, ``time.ZONE.hour`` there.

    Raises ValueError for a path that says something else.
    """
    *zones, part = steps or ("",)
    if part not in _PARTS or len(zones) > 1:
        raise ValueError(
            f'path "{text}" can never resolve: time has time.hour and time.weekday, in UTC, '
            "and with a zone time.Europe/Paris.hour"
        )
    zone, read = _zone(text, zones[0]) if zones else UTC, _PARTS[part]
    return lambda seconds: read(datetime.fromtimestamp(seconds, zone))


def _zone(text: str, name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError and stands below
        raise ValueError(f'path "{text}": "{name}" is not a time zone') from None
    except KeyError:
        raise ValueError(
            f'path "{text}": this machine knows no time zone "{name}"; zones are called like Europe/Paris, '
            "and come with the system or with `pip install tzdata`"
        ) from None
