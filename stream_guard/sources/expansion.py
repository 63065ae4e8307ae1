"""How far packed data may expand: the limits that keep a small file from filling the memory, or running for days."""

from __future__ import annotations

from typing import Final

MAX_RATIO: Final = 1000
"""How many times its size a file may become; text that people and agents write stays below a hundred."""
FREE: Final = 1 << 30
"""Bytes that a file of lines may become in any case: they pass through in pieces."""
FREE_COLUMN: Final = 64 << 20
"""Bytes that a column of a row group of Parquet may become in any case."""
MAX_BLOCK: Final = 128 << 20
"""Bytes that a block of Avro may become: it is in memory as a whole."""


class ExpansionError(OSError):
    """A file expands to more than it may."""


def check_expansion(packed: int, unpacked: int, free: int, what: str = "it") -> None:
    """Raise ExpansionError when so many bytes may not have become so many."""
    if unpacked > free and unpacked > packed * MAX_RATIO:
        raise ExpansionError(
            f"{what} expands to {unpacked} bytes or more, over {MAX_RATIO} times its {packed}; that is no recording"
        )
