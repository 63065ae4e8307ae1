"""JSON that all readers take alike: the check that comes before decoding."""

from __future__ import annotations

from types import BuiltinFunctionType
from typing import Final

import jiter

from stream_guard.language.plain_json import is_plain

_from_json = jiter.from_json
_LOOKS: Final = isinstance(is_plain, BuiltinFunctionType)  # the plain build has no look that is worth a call


def check_json(value: bytes, strict_keys: bool = True) -> None:
    """Raise ValueError when a text is not JSON, is nested deeper than 200 levels, or gives a key twice.

    The decoder lets the last of two equal keys win, and nests as deep as the interpreter allows.
    """
    if not _LOOKS or not is_plain(value):
        _from_json(value, catch_duplicate_keys=strict_keys, allow_inf_nan=False)
