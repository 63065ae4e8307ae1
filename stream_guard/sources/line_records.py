"""The lines of a chunk as records. ``line_records.c`` is the compiled build's."""

from __future__ import annotations

from io import BytesIO

from stream_guard.ports import Record


def line_records(chunk: bytes, start: int, origin: str, position: int, line: int, step: int) -> list[Record]:
    """Return the lines of a chunk from ``start`` on as records, without what follows the last newline.

    The first begins at ``position`` in its file. Lines are counted by ``step``, and ``line`` stand before the first.
    """
    records: list[Record] = []
    for value in BytesIO(chunk[start : chunk.rfind(b"\n") + 1]).readlines():
        line += step
        records.append(Record(value, origin, position, line))
        position += len(value)
    return records
