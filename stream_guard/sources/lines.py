"""JSON lines from one file, plain or packed; it may still be growing."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator, Mapping
from io import FileIO
from pathlib import Path
from threading import Event as Flag
from typing import Final

from stream_guard.errors import SourceError
from stream_guard.ports import Record
from stream_guard.sources.packing import BROKEN, Packed, is_packed, unpack
from stream_guard.sources.splitting import CHUNK, LineSplitter

POLL: Final = 0.2  # seconds between two reads of a followed file
# After a restart, line numbers need a pass over the lines read before; beyond this size they are left out.
_COUNTED: Final = 1 << 30

_logger = logging.getLogger(__name__)


class LineFile:
    """One file of lines, and the position up to which it was read."""

    def __init__(self, path: Path, origin: str, *, limit: int, position: int = 0, follow_links: bool = False) -> None:
        self.path = path
        self.lines = LineSplitter(origin, limit)
        self.lines.restart(position, 0)
        self.packed = is_packed(path.name)
        self._uncounted = position > 0  # the lines that an earlier run read
        self._flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow_links else os.O_NOFOLLOW)
        self._raw: FileIO | None = None
        self._stream: FileIO | Packed | None = None

    def read(self, until: int | None = None) -> Iterator[Record]:
        """Yield the records up to the present end of the file, or to the chunk that reaches ``until``."""
        try:
            read, size = (self._stream or self._open()).read, self.lines.chunk
            while (until is None or self.lines.offset < until) and (chunk := read(size)):
                yield from self.lines.split(chunk)
        except BROKEN as error:
            self.close()
            raise SourceError(
                f"{self.path}: cannot be read beyond byte {self.lines.offset}: {error}; mend it or take it away"
            ) from error

    def open(self) -> None:
        """Open the file now, so that an error comes early."""
        try:
            self._open()
        except BROKEN as error:
            self.close()
            raise SourceError(f"{self.path}: cannot be opened: {error}") from error

    def was_replaced(self) -> bool:
        """Whether the file's name belongs to another file than the open one."""
        try:
            return self._raw is not None and not os.path.samestat(os.fstat(self._raw.fileno()), self.path.stat())
        except FileNotFoundError:
            return False  # moved away; another file may get its name

    def what_changed(self) -> str | None:
        """Return why the open file is not the one that was read so far; None when it is, or has only grown."""
        if self._raw is None or self.packed:
            return None
        position, fd = self.lines.position, self._raw.fileno()
        size = os.fstat(fd).st_size
        if size < self.lines.offset:
            return "became shorter"
        # The newline may come after the position: a last line without one may have got it later.
        if 0 < position < size and b"\n" not in os.pread(fd, 2, position - 1):
            return "has other content than before"
        return None

    def start_over(self, why: str) -> None:
        """Start at the beginning of the file that has the name now, and log why."""
        _logger.warning("%s %s; it is read from its beginning", self.path, why)
        self.close()
        self.lines.restart(0, 0)

    def close(self) -> None:
        """Close the file; ``read`` opens it again."""
        if self._raw is not None:
            self._raw.close()
        self._raw = self._stream = None

    def _open(self) -> FileIO | Packed:
        # Without blocking: a pipe of that name would block for ever.
        self._raw = raw = FileIO(os.open(self.path, self._flags), "rb")
        if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            raise OSError("it is not a regular file")
        self._stream = stream = unpack(raw, self.path.name) if self.packed else raw
        position, offset = self.lines.position, self.lines.offset
        passed, lines = offset, None
        if self.packed or (self._uncounted and position <= _COUNTED):
            passed, lines = _skip(stream, offset)
        if self._uncounted:
            self._uncounted = False
            self.lines.restart(position, lines)
        changed = "became shorter" if passed < offset else self.what_changed()
        if not self.packed:
            raw.seek(offset)
        if changed:
            _logger.warning("%s %s; it is read from its beginning", self.path, changed)
            self.lines.restart(0, 0)
            raw.seek(0)
            self._stream = stream = unpack(raw, self.path.name) if self.packed else raw
        return stream


def _skip(stream: FileIO | Packed, size: int) -> tuple[int, int]:
    """Read up to ``size`` bytes, and return how many there were and how many lines ended in them."""
    left, lines = size, 0
    while left and (chunk := stream.read(min(CHUNK, left))):
        left -= len(chunk)
        lines += chunk.count(b"\n")
    return size - left, lines


class FileSource:
    """The records of one file; when following, also those that are still to be written.

    A last line without a newline is a record; when following, it waits, because it may be half of one. A followed file
    that is replaced or emptied is read to its end, and then the new one from its beginning.
    """

    def __init__(self, path: Path, *, follow: bool, limit: int, positions: Mapping[str, int], stop: Flag) -> None:
        origin = str(path)
        self._file = LineFile(path, origin, limit=limit, position=positions.get(origin, 0), follow_links=True)
        if follow and self._file.packed:
            raise SourceError(
                f"{path}: a packed file cannot be followed, its end does not grow; read it without following"
            )
        self._follow = follow
        self._stop = stop
        self._file.open()

    def __iter__(self) -> Iterator[Record | None]:
        file = self._file
        while True:
            yield from file.read()
            if not self._follow:
                yield from file.lines.last()
                file.close()
                return
            yield None
            self._stop.wait(POLL)
            if changed := file.what_changed():
                yield from file.lines.last()
                file.start_over(changed)
            elif file.was_replaced():
                # To its end: lines may have been written between the last read and the renaming.
                yield from file.read()
                yield from file.lines.last()
                file.start_over("was replaced by another file")

    def positions(self) -> Mapping[str, int]:
        """Where the next record starts, by file."""
        return {self._file.lines.origin: self._file.lines.position}

    def close(self) -> None:
        """Close the file."""
        self._file.close()
