"""JSON that all readers take alike: the check that comes before decoding."""

from __future__ import annotations

import jiter

from stream_guard._native import is_plain_json

_from_json = jiter.from_json


def check_json(value: bytes, strict_keys: bool = True) -> None:
    """Raise ValueError when a text is not JSON, is nested deeper than 200 levels, or gives a key twice.

    The decoder lets the last of two equal keys win, and nests as deep as the interpreter allows.
    """
    if is_plain_json is None or not is_plain_json(value):
        _from_json(value, catch_duplicate_keys=strict_keys, allow_inf_nan=False)
