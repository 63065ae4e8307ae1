"""Tool arguments that arrive as text: JSON written by a model, sometimes JSON in JSON, sometimes broken."""

from __future__ import annotations

from typing import Final

import jiter
import msgspec

from stream_guard.model import Json

MAX_NESTING: Final = 200  # what the strict parser allows; rules and stores recurse no deeper

_decode = msgspec.json.Decoder().decode


def parse_json(value: bytes, *, strict_keys: bool = True) -> Json:
    """Return the value; ValueError when it is not JSON, is nested too deep, or gives a key twice.

    Two parsers run, because neither checks everything: one finds duplicate keys and limits the depth, the other refuses
    numbers that no double holds.
    """
    jiter.from_json(value, catch_duplicate_keys=strict_keys, allow_inf_nan=False, cache_mode="keys")
    return _decode(value)


def parse_arguments(text: str, *, strict_keys: bool = True) -> tuple[Json, bool]:
    """Return the arguments a model wrote as text, and whether they could not be read.

    Text that is not JSON, even after decoding it twice, is returned as it is: an attempt with broken arguments is
    still an attempt, and a rule may look at them.
    """
    value: Json = text
    try:
        for _ in range(2):
            value = parse_json(value.encode(), strict_keys=strict_keys)
            if not isinstance(value, str):
                return value, False
    except (ValueError, RecursionError):
        pass
    return text, True
