"""A spool: records on disk until they were judged. What was added is durable; what is too much is refused."""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from threading import Condition, Thread
from typing import Final, NamedTuple

from stream_guard.errors import StoreError

_HEADER: Final = struct.Struct(">IIB")  # size of the body, its checksum, its sort
_SUFFIX: Final = ".spool"
_SEGMENT: Final = 64 << 20
_LOCK: Final = "lock"  # holds the name of the spool
_NAME: Final = 32  # characters


class SpoolRefusal(Exception):  # noqa: N818  (becomes an answer; no error of the spool)
    """The spool cannot take a record now, because of the disk. Another try may succeed."""


class SpoolFull(SpoolRefusal):
    """The spool cannot take a record before others were judged."""


class Spooled(NamedTuple):
    """A record in the spool."""

    body: bytes
    sort: int  # what the writer says about it, 0 to 255
    position: int
    next: int  # the position of the record behind it


class _Addition:
    """A record that waits to be durable."""

    __slots__ = ("done", "frame", "problem")

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.done = False
        self.problem = ""


class Spool:
    """Records in files of one folder, in the order in which they were added. One process may have it open.

    A thread writes what waits, all of it with one flush to the disk. ``add`` returns when its record is durable. At
    most ``max_bytes`` are kept that were not trimmed, and at most ``max_waiting`` bytes wait for the disk.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = 1 << 30,
        max_waiting: int = 64 << 20,
        patience: float = 10.0,
        segment: int = _SEGMENT,
        flush: Callable[[int], None] = os.fsync,
    ) -> None:
        self.folder = folder
        self._max_bytes, self._max_waiting, self._patience = max_bytes, max_waiting, patience
        self._segment, self._flush = segment, flush
        self._waiting: list[_Addition] = []
        self._waiting_bytes = 0
        self._changed = Condition()
        self._closing = False
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"{folder}: the spool cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.name = self._read_name()
            starts = self._starts()
            self._file, self._start, self._end = self._open(starts[-1] if starts else 0)
        except OSError as error:
            os.close(self._lock)
            if isinstance(error, BlockingIOError):
                raise StoreError(f"{folder}: another process has this spool open; give each its own") from error
            raise StoreError(f"{folder}: the spool cannot be opened: {error.strerror}") from error
        self._is_torn = False  # the file may end with what was written in vain
        self.first = starts[0] if starts else 0  # the oldest position that is kept
        self._writer = Thread(target=self._write_all, name="stream_guard-spool", daemon=True)
        self._writer.start()

    @property
    def end(self) -> int:
        """The position behind the last durable record."""
        return self._end

    def add(self, body: bytes, sort: int = 0) -> None:
        """Add a record, and return when it is durable. Raise SpoolRefusal if it cannot be, or not soon."""
        addition = _Addition(_HEADER.pack(len(body), zlib.crc32(body), sort) + body)
        size = len(addition.frame)
        with self._changed:
            if self._closing:
                raise SpoolRefusal("it is shutting down")
            if self._end - self.first + self._waiting_bytes + size > self._max_bytes:
                raise SpoolFull(f"{self._end - self.first} bytes wait to be judged, which is all it may keep")
            if self._waiting_bytes and self._waiting_bytes + size > self._max_waiting:
                raise SpoolRefusal(f"{self._waiting_bytes} bytes wait for the disk")
            self._waiting.append(addition)
            self._waiting_bytes += size
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: addition.done, self._patience):
                raise SpoolRefusal(f"the disk took longer than {self._patience:g} s")
        if addition.problem:
            raise SpoolRefusal(addition.problem)

    def read(self, position: int) -> Iterator[Spooled]:
        """Yield the durable records from a position on. Raise StoreError for one that is damaged."""
        position = max(position, self.first)
        starts = [start for start in self._starts() if start <= position][-1:] + [
            start for start in self._starts() if start > position
        ]
        for start in starts:
            with self._path(start).open("rb") as file:
                file.seek(position - start)
                while position < self._end and (header := file.read(_HEADER.size)):
                    found = _body_of(header, file.read)
                    if found is None:
                        raise StoreError(
                            f"{self._path(start)}: damaged at byte {position - start}; move the file away to go on, "
                            "what is in it behind that byte is lost"
                        )
                    sort, body = found
                    after = position + _HEADER.size + len(body)
                    yield Spooled(body, sort, position, after)
                    position = after

    def wait(self, position: int, seconds: float) -> None:
        """Return when there is a record behind the position, or after so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._end > position or self._closing, seconds)

    def trim(self, position: int) -> None:
        """Forget the records before a position; files go when all of their records may go."""
        starts = self._starts()
        for start, following in pairwise(starts):
            if following > position:
                break
            self._path(start).unlink()
            with self._changed:
                self.first = following

    def close(self) -> None:
        """Make durable what waits, and close the files. Closing twice is harmless."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        self._writer.join()
        os.close(self._file)
        os.close(self._lock)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting) or self._closing)
                if not self._waiting:
                    return
                batch, self._waiting = self._waiting, []
            problem = self._write(batch)
            with self._changed:
                for addition in batch:
                    addition.done, addition.problem = True, problem
                    self._waiting_bytes -= len(addition.frame)
                self._changed.notify_all()

    def _write(self, batch: list[_Addition]) -> str:
        """Write a batch and flush it; return what is wrong, or an empty text. What was written in vain is cut off."""
        data = b"".join(addition.frame for addition in batch)
        try:
            self._cut_off()
            if self._end - self._start >= self._segment:
                opened, full = self._open(self._end), self._file
                self._file, self._start, self._end = opened
                os.close(full)
            self._is_torn = True
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
            self._flush(self._file)
        except OSError as error:
            with suppress(OSError):  # else it is cut off before the next write
                self._cut_off()
            return f"the disk does not take it: {error.strerror}"
        self._is_torn = False
        self._end += len(data)
        return ""

    def _cut_off(self) -> None:
        """Cut off what was written in vain."""
        if self._is_torn:
            os.ftruncate(self._file, self._end - self._start)
            os.lseek(self._file, 0, os.SEEK_END)
            self._is_torn = False

    def _open(self, start: int) -> tuple[int, int, int]:
        """Open the file that begins at a position, and cut off what is not a whole record at its end.

        Returns it with the positions of its begin and its end.
        """
        path = self._path(start)
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            folder = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(folder)  # else the name of the file may not survive a crash
            finally:
                os.close(folder)
            with path.open("rb") as written:
                size = 0
                while (header := written.read(_HEADER.size)) and (found := _body_of(header, written.read)) is not None:
                    size += _HEADER.size + len(found[1])
            os.ftruncate(file, size)
            os.lseek(file, 0, os.SEEK_END)
        except OSError:
            os.close(file)
            raise
        return file, start, start + size

    def _read_name(self) -> str:
        """Return what tells this spool from any other; whoever opens it first draws it."""
        name = os.pread(self._lock, _NAME, 0)
        if len(name) < _NAME:
            name = token_hex(_NAME // 2).encode()
            os.pwrite(self._lock, name, 0)
            os.fsync(self._lock)
        return name.decode("ascii", "replace")

    def _path(self, start: int) -> Path:
        return self.folder / f"{start:020d}{_SUFFIX}"

    def _starts(self) -> list[int]:
        """Return the positions at which the files begin, in order."""
        names = (path.name.removesuffix(_SUFFIX) for path in self.folder.glob(f"*{_SUFFIX}"))
        return sorted(int(name) for name in names if name.isdigit())


def _body_of(header: bytes, read: Callable[[int], bytes]) -> tuple[int, bytes] | None:
    """Return the sort and the body of a record; None where it is cut off or damaged."""
    if len(header) < _HEADER.size:
        return None
    size, checksum, sort = _HEADER.unpack(header)
    body = read(size)
    return (sort, body) if len(body) == size and zlib.crc32(body) == checksum else None
