"""A savepoint: the states of a group in a file, as they are at an offset of each of its topics.

The first line is the header, in JSON. Then come the rows, each behind its length, and a length of zero. The last line
has the number of rows and the digest of all that is before it, so that a file that was cut off or changed is noticed.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import mkstemp
from typing import Annotated, BinaryIO, Final, TypeVar

import msgspec

from stream_guard.errors import StoreError
from stream_guard.judge.model import resolved
from stream_guard.worker.rows import VERSION, partition_prefix

FORMAT: Final = 1
_LENGTH: Final = struct.Struct(">I")
_MOST: Final = 256 << 20  # bytes of one row; no broker takes a longer one
_HEADER: Final = 16 << 20  # bytes


DecodedT = TypeVar("DecodedT")


class SavedTopic(msgspec.Struct, frozen=True):
    """A topic that the group has read."""

    name: str
    topic_id: str  # in hexadecimal
    next_offsets: list[int]  # by partition: what the group has not read yet begins here
    ends: list[int]  # by partition, when it was saved
    unread: list[int]  # partitions with records that the group has not read


class SavepointHeader(msgspec.Struct, frozen=True):
    """What a savepoint is of."""

    stream_guard_state: int  # the format of the file
    row_version: int
    group: str
    partitions: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    topics: list[SavedTopic]
    changelog_ends: list[int]  # by partition: the rows before these offsets are in the file
    saved_at: float


@resolved
class SavedRow(msgspec.Struct, array_like=True, gc=False):
    """A row of the table. The order of the fields is the format."""

    partition: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
    key: bytes
    value: bytes


class _Trailer(msgspec.Struct, frozen=True):
    rows: int
    sha256: str


def write_savepoint(path: Path, header: SavepointHeader, rows: Iterable[SavedRow]) -> int:
    """Write a savepoint that only its owner may read; return its number of rows. It is there whole or not at all."""
    digest, count, encode = sha256(), 0, msgspec.msgpack.Encoder().encode
    handle, name = mkstemp(dir=path.parent, prefix=f"{path.name}.")  # nobody else may read it: states quote sessions
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:

            def put(data: bytes) -> None:
                digest.update(data)
                file.write(data)

            put(msgspec.json.encode(header) + b"\n")
            for row in rows:
                packed = encode(row)
                put(_LENGTH.pack(len(packed)) + packed)
                count += 1
            put(_LENGTH.pack(0))
            file.write(msgspec.json.encode(_Trailer(count, digest.hexdigest())) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return count


class SavepointFile:
    """A savepoint that was read to its end once, and is what was written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        digest, count = sha256(), 0
        with path.open("rb") as file:
            self.header = self._read_header(file, digest.update)
            for packed in self._frames(file, digest.update):
                del packed
                count += 1
            trailer = self._decode(file.read(_HEADER), _Trailer)
        if (trailer.rows, trailer.sha256) != (count, digest.hexdigest()):
            raise StoreError(f"{path}: the content is not what was written; copy the file again, or export again")
        self.digest = trailer.sha256
        self.count = count

    def rows(self) -> Iterator[SavedRow]:
        """Yield the rows."""
        decode = msgspec.msgpack.Decoder(SavedRow).decode
        with self._path.open("rb") as file:
            self._read_header(file, lambda _: None)
            for packed in self._frames(file, lambda _: None):
                try:
                    row = decode(packed)
                except msgspec.MsgspecError as error:
                    raise self._unreadable(f"a row that is none: {error}") from None
                if not row.key.startswith(partition_prefix(row.partition)) or row.partition >= self.header.partitions:
                    raise self._unreadable(f"a row of a partition that it does not have: {row.partition}")
                yield row

    def _read_header(self, file: BinaryIO, seen: Callable[[bytes], object]) -> SavepointHeader:
        line = file.readline(_HEADER)
        if not line.startswith(b'{"stream_guard_state":'):
            raise self._unreadable("its first line is not that of a savepoint")
        header = self._decode(line, SavepointHeader)
        seen(line)
        if (header.stream_guard_state, header.row_version) != (FORMAT, VERSION):
            raise StoreError(
                f"{self._path}: written by another version of stream_guard (format {header.stream_guard_state}, rows "
                f"{header.row_version}; this one reads {FORMAT} and {VERSION}); import it with that version"
            )
        return header

    def _frames(self, file: BinaryIO, seen: Callable[[bytes], object]) -> Iterator[bytes]:
        while True:
            head = file.read(_LENGTH.size)
            if len(head) < _LENGTH.size:
                raise self._cut_off()
            seen(head)
            (length,) = _LENGTH.unpack(head)
            if not length:
                return
            if length > _MOST:
                raise self._unreadable(f"a row of {length} bytes")
            packed = file.read(length)
            if len(packed) < length:
                raise self._cut_off()
            seen(packed)
            yield packed

    def _decode(self, line: bytes, kind: type[DecodedT]) -> DecodedT:
        if not line.endswith(b"\n"):
            raise self._cut_off()
        try:
            return msgspec.json.decode(line, type=kind)
        except msgspec.MsgspecError as error:
            raise self._unreadable(str(error)) from None

    def _cut_off(self) -> StoreError:
        return StoreError(f"{self._path}: the file is cut off; copy it again, or export again")

    def _unreadable(self, what: str) -> StoreError:
        return StoreError(f"{self._path}: not a savepoint: {what}; name a file that `state export` has written")
