"""The lines of a chunk as records. ``line_records.c`` is the compiled build's."""

from __future__ import annotations

from io import BytesIO
from typing import Final

from stream_guard.ports import Record

_LEFT_OUT: Final = Record(b"")


def line_records(
    chunk: bytes, start: int, origin: str, position: int, line: int, step: int, needed: bytes
) -> list[Record]:
    """Return the lines of a chunk from ``start`` on as records, without what follows the last newline.

    The first begins at ``position`` in its file. Lines are counted by ``step``, and ``line`` stand before the first.
    Where ``needed`` has a 0 for a line, a record that tells nothing stands for it.
    """
    records: list[Record] = []
    for number, value in enumerate(BytesIO(chunk[start : chunk.rfind(b"\n") + 1]).readlines()):
        line += step
        left_out = number < len(needed) and not needed[number]
        records.append(_LEFT_OUT if left_out else Record(value, origin, position, line))
        position += len(value)
    return records
