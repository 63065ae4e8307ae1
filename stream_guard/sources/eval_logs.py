"""Inspect's ``.eval`` files: a ZIP with one JSON file for each sample, which become one record each."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import msgspec

from stream_guard.errors import SourceError
from stream_guard.ports import Record
from stream_guard.sources.packing import WINDOW, load_zstandard
from stream_guard.sources.splitting import HEAD

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
