"""Append-only files of JSON lines that hold no line twice and no half line after a crash."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from stream_guard.storage.sqlite_files import PRIVATE

Identify: TypeAlias = Callable[[bytes], str]  # "" for a line that has no id

_CHUNK: Final = 1 << 20
# Lines of a removed rule are never repeated; after this many others they are not expected any more.
_PATIENCE: Final = 1000


class LineLog:
    """Appends lines to a file. Each line has an id that can be read back from it.

    ``position`` is what ``flush`` returned before the last checkpoint. The lines after it are from a run that died
    before its next checkpoint, and this run repeats that work: their ids are read back, and those lines are not
    appended again. A last line without a newline is cut off. ``flush`` returns the position of the first line that was
    not repeated yet, because this run may die as well. Without a position, the lines of the file are left alone.
    Raises OSError.
    """

    def __init__(self, path: Path, identify: Identify, *, position: int | None = None) -> None:
        self.path = path
        self._identify = identify
        self._fd = self._open()
        self._expected: dict[str, int] = {}  # ids that this run should repeat, and where their lines start
        self._unexpected = 0  # lines written since the last one that was expected
        self._durable = False  # the lines of a dead process may not have reached the disk
        if self._regular and (size := os.fstat(self._fd).st_size):
            known = position is not None and position <= size and self._ends_line(position)
            if position is not None:
                # A file that ends before the position, or has no newline there, was replaced: read all of it.
                for identity, place in self._ids(position if known else 0, size):
                    self._expected.setdefault(identity, place)
                self._expected.pop("", None)  # lines that are not ours
            if not self._ends_line(size):
                self._mend(size, cut=known)

    def append(self, lines: Sequence[tuple[str, bytes]]) -> None:
        """Write the lines whose ids are not there yet: all of them, or none and OSError."""
        expected = self._expected
        repeated = [identity for identity, _ in lines if identity in expected] if expected else []
        data = b"".join([line + b"\n" for identity, line in lines if identity not in expected])
        if data:
            self._write(data)
        # After the write: on an error the caller tries the same lines again.
        for identity in repeated:
            expected.pop(identity, None)
        if expected:
            self._unexpected = 0 if repeated else self._unexpected + len(lines)
            if self._unexpected > max(_PATIENCE, len(expected)):
                expected.clear()

    def _write(self, data: bytes) -> None:
        self._follow_rotation()
        start = os.fstat(self._fd).st_size
        self._durable = False
        try:
            _write_all(self._fd, data)
        except OSError:
            with suppress(OSError):  # the first error says what is wrong
                os.ftruncate(self._fd, start)
            raise

    def flush(self) -> int:
        """Write everything to the disk, and return the position for the checkpoint."""
        if not self._regular:
            return 0
        if not self._durable:
            os.fsync(self._fd)
            self._durable = True
        # In the order of the file: the first one is the earliest.
        return next(iter(self._expected.values()), os.fstat(self._fd).st_size)

    def close(self) -> None:
        """Flush, and release the lock on the file."""
        if self._fd >= 0:
            try:
                self.flush()
            finally:
                os.close(self._fd)
                self._fd = -1

    def _open(self) -> int:
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        self._regular = stat.S_ISREG(os.fstat(fd).st_mode)
        if self._regular:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(fd)
                raise
        return fd

    def _follow_rotation(self) -> None:
        """Continue in a new file when this one was moved away."""
        if not self._regular:
            return
        if self._fd >= 0:
            with suppress(FileNotFoundError):
                if os.path.samestat(self.path.stat(), os.fstat(self._fd)):
                    return
            self.close()
            # The expected ids stay, but their places were in the old file.
            self._expected = dict.fromkeys(self._expected, 0)
        self._fd = self._open()

    def _ends_line(self, position: int) -> bool:
        return position == 0 or os.pread(self._fd, 1, position - 1) == b"\n"

    def _ids(self, start: int, end: int) -> Iterator[tuple[str, int]]:
        rest, place = b"", start
        while start < end and (chunk := os.pread(self._fd, min(_CHUNK, end - start), start)):
            start += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield self._identify(line), place
                place += len(line) + 1

    def _mend(self, size: int, *, cut: bool) -> None:
        if not cut:
            _write_all(self._fd, b"\n")
            return
        end = size
        while end > 0:
            start = max(0, end - _CHUNK)
            newline = os.pread(self._fd, end - start, start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        os.ftruncate(self._fd, end)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
