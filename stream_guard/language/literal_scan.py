"""A quick search for many literals at once. The plain build has none; ``literal_scan.c`` is the compiled build's."""

from __future__ import annotations

from collections.abc import Sequence

from stream_guard.model import Json


def prepare(literals: Sequence[bytes]) -> bytes:
    """Return what ``may_occur`` needs for literals of three bytes or more, in small letters; empty: do not ask it."""
    del literals
    return b""


def may_occur(prepared: bytes, value: Json) -> bool:
    """Whether one of the literals may occur in a string of a JSON value, in small or capital letters.

    Names of fields are strings of it too. False proves that none of the literals stands in one of the strings.
    """
    del prepared, value
    return True
