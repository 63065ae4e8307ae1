"""Avro files that expand: every block is unpacked within limits once, before its rows are read.

A block is in memory as a whole, so one that is packed tightly can fill it. So can items that take no bytes: an array
of nulls has as many as it says.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any, BinaryIO, Final

from stream_guard.sources.expansion import MAX_BLOCK, ExpansionError

_SYNC: Final = 16  # bytes between two blocks


def check_avro(file: BinaryIO, package: Any) -> None:
    """Raise ExpansionError when a block of the file expands further than it may."""
    reader = package.reader(file)
    schema = reader.writer_schema
    names: dict[str, Any] = {}
    if _is_empty(schema, names) or any(_is_empty(items, names) for items in _items(schema, names)):
        raise ExpansionError("rows or items of an array that take no bytes; there may be any number of them")
    unpack = _UNPACKERS.get(reader.codec)
    while (count := _long(file)) is not None:
        size = _long(file)
        if size is None or size < 0 or count < 0:
            raise ExpansionError("a block without its size")
        end = file.tell() + size
        # Without an unpacker: not packed.
        found = size if unpack is None else sum(unpack(_Part(file, size), MAX_BLOCK))
        if found > MAX_BLOCK:
            raise ExpansionError(f"a block of {size} bytes expands to {found} or more; {MAX_BLOCK} are read")
        file.seek(end + _SYNC)


class _Part:
    """A part of a file, read in pieces."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size

    def __iter__(self) -> Iterator[bytes]:
        while self._left > 0:
            piece = self._file.read(min(self._left, 1 << 16))
            if not piece:
                raise EOFError("it ends in the middle of a block")
            self._left -= len(piece)
            yield piece


def _bounded(make: Callable[[], Any]) -> Callable[[_Part, int], Iterator[int]]:
    """Return what unpacks a part with a decompressor of the standard library, and yields how much came out."""

    def unpack(part: _Part, most: int) -> Iterator[int]:
        decompressor, found = make(), 0
        for piece in part:
            packed = piece
            while not decompressor.eof and found <= most:
                out = decompressor.decompress(packed, 1 << 20)
                found += len(out)
                yield len(out)
                packed = getattr(decompressor, "unconsumed_tail", b"")
                if not out and not packed:
                    break

    return unpack


def _zstandard(part: _Part, most: int) -> Iterator[int]:
    import zstandard  # noqa: PLC0415  # only now: most runs never need it

    reader = zstandard.ZstdDecompressor(max_window_size=128 << 20).stream_reader(BytesIO(b"".join(part)))
    found = 0
    while found <= most and (out := reader.read(1 << 20)):
        found += len(out)
        yield len(out)


def _told_by_lz4(part: _Part, most: int) -> Iterator[int]:
    """Yield the size that the block says it has: as much memory is asked for."""
    del most
    yield int.from_bytes(next(iter(part), b"")[:4], "little")


def _told_by_snappy(part: _Part, most: int) -> Iterator[int]:
    """Yield the size that the block says it has: as much memory is asked for."""
    del most
    found = 0
    for place, byte in enumerate(next(iter(part), b"")[:5]):
        found |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    yield found


_UNPACKERS: Final[dict[str, Callable[[_Part, int], Iterator[int]]]] = {
    "deflate": _bounded(lambda: zlib.decompressobj(-15)),
    "bzip2": _bounded(bz2.BZ2Decompressor),
    "xz": _bounded(lzma.LZMADecompressor),
    "zstandard": _zstandard,
    "lz4": _told_by_lz4,
    "snappy": _told_by_snappy,
}


def _long(file: BinaryIO) -> int | None:
    """Return the next number of the file, or None at its end."""
    value, shift = 0, 0
    while shift < 70:
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
    raise ExpansionError("a block without its size")


def _items(schema: Any, names: dict[str, Any]) -> Iterator[Any]:
    """Yield the schemas of all arrays' items, and note the records that have names."""
    if isinstance(schema, list):
        for one in schema:
            yield from _items(one, names)
    elif isinstance(schema, dict):
        if "name" in schema:
            names[schema["name"]] = schema
        if schema.get("type") == "array":
            yield schema["items"]
        for inner in (schema.get("items"), schema.get("values"), *(f["type"] for f in schema.get("fields", ()))):
            if inner is not None:
                yield from _items(inner, names)
        if isinstance(schema.get("type"), dict | list):
            yield from _items(schema["type"], names)


def _is_empty(schema: Any, names: dict[str, Any], above: tuple[str, ...] = ()) -> bool:
    """Whether values of a schema take no bytes at all."""
    if isinstance(schema, str):
        return schema == "null" or (schema in names and schema not in above and _is_empty(names[schema], names, above))
    if not isinstance(schema, dict):
        return False  # a union has the number of its branch
    kind = schema.get("type")
    if kind in ("record", "error"):
        inside = (*above, str(schema.get("name")))
        return all(_is_empty(field["type"], names, inside) for field in schema.get("fields", ()))
    return (kind == "fixed" and schema.get("size") == 0) or (
        kind != "fixed"
        and isinstance(kind, str | dict)
        and kind not in ("array", "map", "enum")
        and _is_empty(kind, names, above)
    )
