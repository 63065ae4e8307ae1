"""Parquet files that expand: what a row group says of its size, and how many of its rows fit into memory.

A column stores a text that is repeated once, in a dictionary. A text of megabytes that is said by every row costs
nothing in the file, and megabytes for every row that is read.
"""

from __future__ import annotations

from typing import Any, BinaryIO, Final

from stream_guard.sources.expansion import FREE_COLUMN, ExpansionError, check_expansion

_MEMORY: Final = 64 << 20  # bytes that the rows of one batch may take
_HEAD: Final = 64  # bytes of a page that its sizes are in


def rows_at_once(group: Any, raw: BinaryIO, most: int) -> int:
    """Return how many rows of a row group may be in memory together; ExpansionError where it expands too far."""
    per_row = 0  # bytes that a row takes when it says the whole dictionary of each column
    for number in range(group.num_columns):
        column = group.column(number)
        check_expansion(
            column.total_compressed_size, column.total_uncompressed_size, FREE_COLUMN, f"column {column.path_in_schema}"
        )
        if column.has_dictionary_page:
            values = max(1, column.num_values // max(1, group.num_rows))  # a row may be a list
            per_row += values * _page_size(raw, column.dictionary_page_offset)
    if per_row > _MEMORY:
        raise ExpansionError(f"its rows may have {per_row} bytes, by its dictionaries; {_MEMORY} are read")
    return max(1, min(most, _MEMORY // max(1, per_row)))


def _page_size(raw: BinaryIO, offset: int) -> int:
    """Return the unpacked size of the page at an offset: the second number of its header, in Thrift's compact form."""
    raw.seek(offset)
    head = raw.read(_HEAD)
    _, end = _number(head, 0)
    size, _ = _number(head, end)
    return size


def _number(head: bytes, at: int) -> tuple[int, int]:
    """Return the number of a field at a place, and where the next field begins."""
    if head[at : at + 1] != b"\x15":  # the next field, a 32-bit integer
        raise ExpansionError("a page without its size")
    value, shift = 0, 0
    for place in range(at + 1, min(at + 7, len(head))):
        value |= (head[place] & 0x7F) << shift
        shift += 7
        if head[place] < 0x80:
            return (value >> 1) ^ -(value & 1), place + 1
    raise ExpansionError("a page without its size")
