"""How much the judge remembers, and spans of time as people write them: ``90``, ``90s``, ``5m``, ``24h``, ``7d``."""

from __future__ import annotations

import math
import re
import sys
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

NO_LIMIT: Final = sys.maxsize
"""As ``max_live``: the store keeps every session that there is."""
FRESH: Final = 20.0  # seconds in which a yes may be asked for again, because the answer was lost

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


class Limits(BaseModel):
    """Limits on what is remembered; a metric counts each time one is reached."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_live: int = Field(default=1_000_000, gt=0, description="sessions open at once; the longest idle is closed")
    max_states: int = Field(default=1000, gt=0, description="states one session may hold, keyed ones included")
    max_open_calls: int = Field(default=256, gt=0, description="unanswered tool calls remembered per session")
    max_session_bytes: int = Field(
        default=4 * 2**20, gt=0, description="bytes one stored session may have; its oldest unanswered calls go first"
    )
    max_buffered_bytes: int = Field(
        default=2**20,
        gt=0,
        description="bytes of events that one session holds back for their order; beyond, the earliest are judged",
    )
    duplicate_window: int = Field(default=1000, gt=0, description="event ids remembered per session")
    in_memory: int = Field(default=50_000, gt=0, description="sessions kept unpacked; the others are bytes")
    max_future_skew: Duration = Field(
        default=300.0, description="how far ahead of the receiver's clock an event may be stamped and still move clocks"
    )
    tenant_label: str = Field(
        default="", description="the label that names the tenant; two tenants' sessions of one id are then two sessions"
    )
    end_from: tuple[str, ...] = Field(
        default=(),
        description="agents whose `session_end` resets limits, `*` for all; after another's the session may go on",
    )
