"""Archives: nested folders, as Kafka Connect and object stores write them, read once from end to end."""

from __future__ import annotations

import bz2
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import msgspec

from stream_guard.distribution import install_line
from stream_guard.errors import SourceError
from stream_guard.ports import Record
from stream_guard.sources.lines import LineFile
from stream_guard.sources.packing import MAX_BLOCK, WINDOW, ExpansionError, load_zstandard
from stream_guard.sources.parquet_process import ParquetReader
from stream_guard.sources.rows import WrittenRow, written_row
from stream_guard.sources.splitting import HEAD

# Inspect's ``.eval`` files: a ZIP with one JSON file for each sample, which become one record each.


EVAL: Final = ".eval"
_ZSTANDARD: Final = 93  # the number of the method in a ZIP; Python knows it from 3.14 on
_LOCAL_HEADER: Final = 30  # bytes before the name of a member
_HEADS: Final = ("header.json", "_journal/start.json")  # of a log that was finished, and of one that was not
_MOST_OF_HEAD: Final = 16 << 20

_encode = msgspec.json.Encoder().encode


class EvalFile:
    """One log. ``position`` is the number of the next sample.

    A record is a log with one sample, as Inspect writes it to ``.json``: what it says of the run, and the sample.
    """

    def __init__(self, path: Path, origin: str, *, limit: int, position: int = 0) -> None:
        self.path = path
        self.origin = origin
        self.position = position
        self._limit = limit

    def read(self) -> Iterator[Record]:
        """Yield the records from the position on; SourceError where the file is not what it says it is."""
        try:
            with self.path.open("rb") as raw, ZipFile(raw) as log:
                run = self._run(raw, log)
                members = {member.filename: member for member in log.infolist()}  # the last of a name counts
                samples = [name for name in members if name.startswith("samples/") and name.endswith(".json")]
                for number, name in enumerate(samples[self.position :], self.position):
                    record = self._record(raw, members[name], run, number)
                    self.position = number + 1  # before the yield: a checkpoint taken now must not repeat this record
                    yield record
        except Exception as error:  # the packages raise many sorts of exceptions on broken bytes
            raise SourceError(
                f"{self.path}: cannot be read beyond sample {self.position}: {error}; mend it or take it away"
            ) from error

    def _run(self, raw: BinaryIO, log: ZipFile) -> bytes:
        names = log.namelist()
        head = next((name for name in _HEADS if name in names), None)
        if head is None:
            raise BadZipFile(f"it has no {_HEADS[0]}, so it is no log of Inspect")
        found = msgspec.json.decode(_unpacked(raw, log.getinfo(head), _MOST_OF_HEAD))
        return _encode(found.get("eval") if isinstance(found, dict) else None)

    def _record(self, raw: BinaryIO, member: ZipInfo, run: bytes, number: int) -> Record:
        sample = _unpacked(raw, member, self._limit + 1)
        if len(sample) > self._limit:
            head = sample[: min(HEAD, self._limit)]
            return Record(head, self.origin, number, number + 1, truncated=max(len(sample), member.file_size))
        return Record(b'{"eval":%b,"samples":[%b]}' % (run, sample), self.origin, number, number + 1)


def _unpacked(raw: BinaryIO, member: ZipInfo, most: int) -> bytes:
    """Return the first bytes of a member, up to so many; BadZipFile where they are not those that were packed."""
    found = _unpack(raw, member, most)
    if len(found) < most and zlib.crc32(found) != member.CRC:
        raise BadZipFile(f"{member.filename} is damaged: its checksum is another")
    return found


def _unpack(raw: BinaryIO, member: ZipInfo, most: int) -> bytes:
    raw.seek(member.header_offset)
    header = raw.read(_LOCAL_HEADER)
    if len(header) < _LOCAL_HEADER or not header.startswith(b"PK\x03\x04"):
        raise BadZipFile(f"{member.filename} is not where the list of files says")
    raw.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
    packed = raw.read(min(member.compress_size, most + most // 100 + 1024))  # what cannot be packed grows a little
    if member.compress_type == ZIP_STORED:
        return packed[:most]
    if member.compress_type == ZIP_DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, most)
    if member.compress_type == _ZSTANDARD:
        reader = (
            load_zstandard()
            .ZstdDecompressor(max_window_size=WINDOW)
            .stream_reader(BytesIO(packed), read_across_frames=True)
        )
        return bytes(reader.read(most))
    raise BadZipFile(f"{member.filename} is packed by method {member.compress_type}, which Inspect does not use")


# Rows of Avro and Parquet files as records, with the extra ``archives``.


AVRO: Final = ".avro"
PARQUET: Final = ".parquet"


class TableFile:
    """One file of rows. ``position`` is the number of the next row."""

    def __init__(self, path: Path, origin: str, *, limit: int, position: int = 0, parquet: ParquetReader) -> None:
        self.path = path
        self.origin = origin
        self.position = position
        self._limit = limit
        self._parquet = parquet
        _require(path)

    def read(self) -> Iterator[Record]:
        """Yield the records from the position on; SourceError where the file is not what it says it is."""
        rows = self._avro() if self.path.name.endswith(AVRO) else self._parquet.rows(self.path, self._limit)
        number = -1
        while True:
            try:
                row = next(rows, None)
            except Exception as error:  # the packages raise many sorts of exceptions on broken bytes
                raise SourceError(
                    f"{self.path}: cannot be read beyond row {number + 1}: {error}; mend it or take it away"
                ) from error
            if row is None:
                return
            number += 1
            if number < self.position:
                continue
            self.position = number + 1  # before the yield: a checkpoint taken now must not repeat this record
            yield Record(row.value, self.origin, number, number + 1, key=row.key, truncated=row.truncated)

    def _avro(self) -> Iterator[WrittenRow]:
        import fastavro  # noqa: PLC0415  # it loads slowly, and most runs never need it

        with self.path.open("rb") as file:
            check_avro(file, fastavro)
            file.seek(0)
            rows: Iterator[Any] = fastavro.reader(file)
            for row in rows:
                yield written_row(row, self._limit)


def _require(path: Path) -> None:
    """Raise SourceError where the package that reads a file is not installed."""
    if find_spec("fastavro" if path.suffix == AVRO else "pyarrow") is None:
        raise SourceError(f"{path}: reading {path.suffix} needs an extra: {install_line('archives')}")


LINES: Final = (".jsonl", ".ndjson", ".json", ".traj")
PACKINGS: Final = ("", ".gz", ".zst")
ROWS: Final = (AVRO, PARQUET, EVAL)
"""Ends of the names of files that are no lines."""
SUFFIXES: Final = (*(lines + packing for lines in LINES for packing in PACKINGS), *ROWS)

_NUMBER: Final = re.compile(r"(\d+)")
SortKey: TypeAlias = tuple[tuple[tuple[str, int], ...], ...]


def find_files(folder: Path) -> list[Path]:
    """Return the readable files below a folder in order; hidden files and links are skipped."""
    found: list[Path] = []
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in files:
            path = Path(where, name)
            if name.endswith(SUFFIXES) and not name.startswith((".", "_")) and not path.is_symlink():
                found.append(path)
    return sorted(found, key=lambda path: sort_key(path.relative_to(folder)))


def sort_key(path: Path) -> SortKey:
    """Return the sort key of a file: by name, with the numbers in it by value.

    So ``partition=2`` comes before ``partition=10``, and hours, days and offsets are in order.
    """
    return tuple(
        tuple((text, int(number or 0)) for text, number in _pieces(_NUMBER.split(part))) for part in path.parts
    )


def _pieces(split: list[str]) -> Iterator[tuple[str, str]]:
    for at in range(0, len(split), 2):
        yield split[at], split[at + 1] if at + 1 < len(split) else ""


class ArchiveSource:
    """The records of files, one after the other.

    What cannot be read of Avro or Parquet is one record that says why, and the next file follows. Other files that
    cannot be read raise SourceError.
    """

    def __init__(self, files: list[Path], *, limit: int, positions: Mapping[str, int]) -> None:
        self._positions = dict(positions)
        self._limit = limit
        self._files = files
        self._open: LineFile | None = None
        self._parquet = ParquetReader()

    def __iter__(self) -> Iterator[Record | None]:
        with closing(self._parquet):
            for path in self._files:
                origin = str(path)
                start = self._positions.get(origin, 0)
                yield from (self._rows if path.suffix in ROWS else self._lines)(path, origin, start)

    def _rows(self, path: Path, origin: str, start: int) -> Iterator[Record]:
        file: EvalFile | TableFile
        if path.suffix == EVAL:
            file = EvalFile(path, origin, limit=self._limit, position=start)
        else:
            file = TableFile(path, origin, limit=self._limit, position=start, parquet=self._parquet)
        try:
            for record in file.read():
                self._positions[origin] = file.position
                yield record
        except SourceError as error:
            if path.suffix == EVAL:
                raise
            # The position stays: once the file is mended, it is read on from there.
            yield Record(b"", origin, file.position, truncated=max(1, path.stat().st_size), problem=str(error))

    def _lines(self, path: Path, origin: str, start: int) -> Iterator[Record]:
        self._open = file = LineFile(path, origin, limit=self._limit, position=start)
        for record in file.read():
            self._positions[origin] = file.lines.position
            yield record
        for record in file.lines.last():
            self._positions[origin] = file.lines.position
            yield record
        file.close()

    def positions(self) -> Mapping[str, int]:
        """Where the next record starts, by file: a byte, or a row or sample of a file that is no lines."""
        return dict(self._positions)

    def close(self) -> None:
        """Close what is open."""
        self._parquet.close()
        if self._open is not None:
            self._open.close()


def open_archive(path: Path, *, limit: int, positions: Mapping[str, int]) -> ArchiveSource:
    """Return the source for a folder with folders, or for a file of rows; SourceError when nothing can be read."""
    files = [path] if path.is_file() else find_files(path)
    if not files:
        raise SourceError(
            f"{path}: no file in it, or in a folder below, ends in {', '.join(SUFFIXES)}; name another folder"
        )
    return ArchiveSource(files, limit=limit, positions=positions)


# Avro files that expand: every block is unpacked within limits once, before its rows are read.
#
# A block is in memory as a whole, so one that is packed tightly can fill it. So can items that take no bytes: an array
# of nulls has as many as it says.


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
