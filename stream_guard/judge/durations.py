"""Spans of time as people write them: ``90``, ``90s``, ``5m``, ``24h``, ``7d``."""

from __future__ import annotations

import math
import re
from typing import Annotated, Final

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WRITTEN: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(ms|s|m|h|d)?")


def parse_duration(value: object) -> float:
    """Return the seconds; ValueError when it is not a positive span of time."""
    seconds = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and (match := _WRITTEN.fullmatch(value)):
        seconds = float(match[1]) * _UNITS[match[2] or "s"]
    if not (seconds > 0 and math.isfinite(seconds)):
        raise ValueError(f"{value!r} is not a span of time; write seconds, or a number with ms, s, m, h or d")
    return seconds


def _validate(value: object) -> float:
    try:
        return parse_duration(value)
    except ValueError as error:
        raise PydanticCustomError("duration", "{why}", {"why": str(error)}) from None


Duration = Annotated[
    float,
    BeforeValidator(_validate),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": r"^\d{1,9}(\.\d{1,6})? ?(ms|s|m|h|d)?$"},
            ],
            "description": "seconds, or a number with ms, s, m, h or d",
        }
    ),
]
"""A span of time in seconds."""
