"""JSON from one file, plain or packed: a value to a line, or values over many lines. It may still be growing."""

from __future__ import annotations

import logging
import os
import select
import stat
from collections.abc import Iterator, Mapping
from io import FileIO
from pathlib import Path
from threading import Event as Flag
from typing import Final

from stream_guard.errors import SourceError
from stream_guard.ports import Record
from stream_guard.sources.documents import DocumentSplitter, is_document
from stream_guard.sources.marks import FileMark, find_inode, is_marked, make_mark
from stream_guard.sources.packing import BROKEN, Packed, is_packed, unpack
from stream_guard.sources.splitting import CHUNK, HEAD, LineSplitter

POLL: Final = 0.2  # seconds between two reads of a followed file
# After a restart, line numbers need a pass over the lines read before; beyond this size they are left out.
_COUNTED: Final = 1 << 30

_logger = logging.getLogger(__name__)


class LineFile:
    """One file of lines, and the position up to which it was read."""

    def __init__(
        self,
        path: Path,
        origin: str,
        *,
        limit: int,
        position: int = 0,
        mark: FileMark | None = None,
        follow_links: bool = False,
    ) -> None:
        self.path = path
        self._mark = mark  # of the file that an earlier run read to the position
        self._marked_at = position
        self.lines: LineSplitter | DocumentSplitter = LineSplitter(origin, limit)
        self.lines.restart(position, 0)
        self._limit = limit
        self._is_new = True  # nobody has looked how it begins
        self.packed = is_packed(path.name)
        self._uncounted = position > 0  # the lines that an earlier run read
        self._flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow_links else os.O_NOFOLLOW)
        self._raw: FileIO | None = None
        self._stream: FileIO | Packed | None = None

    def mark(self) -> FileMark | None:
        """Return the mark for the present position; None before the first line."""
        position = self.lines.position
        if position == 0:
            return None
        if self._mark is None or self._marked_at != position:
            try:
                self._renew_mark()
            except OSError:
                return None  # it is gone; there is nothing to recognise
        return self._mark

    def _renew_mark(self) -> None:
        self._marked_at = self.lines.position
        if self._raw is not None:
            self._mark = make_mark(self._raw.fileno(), self._marked_at, packed=self.packed)
            return
        with FileIO(os.open(self.path, self._flags), "rb") as raw:
            self._mark = make_mark(raw.fileno(), self._marked_at, packed=self.packed)

    def read(self, until: int | None = None) -> Iterator[Record]:
        """Yield the records up to the present end of the file, or to the chunk that reaches ``until``."""
        for batch in self.batches(1, until):
            yield from batch

    def batches(self, most: int, until: int | None = None) -> Iterator[list[Record]]:
        """Yield the same records in lists of at most so many."""
        try:
            read, size = (self._stream or self._open()).read, self.lines.chunk
            while (until is None or self.lines.offset < until) and (chunk := read(size)):
                yield from self.lines.batches(chunk, most)
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
        is_lines = isinstance(self.lines, LineSplitter)
        if is_lines and 0 < position < size and b"\n" not in os.pread(fd, 2, position - 1):
            return "has other content than before"
        return None

    def _what_was_replaced(self) -> str | None:
        """Return that the file just opened is another one than an earlier run read; None when it is the same."""
        mark, self._mark = self._mark, None
        if mark is None or self._raw is None or self._marked_at != self.lines.position:
            return None
        same = is_marked(self._raw.fileno(), self._marked_at, mark, packed=self.packed)
        return None if same else "was replaced while nobody read it"

    def start_over(self, why: str) -> None:
        """Start at the beginning of the file that has the name now, and log why."""
        _logger.warning("%s %s; it is read from its beginning", self.path, why)
        self.close()
        self.lines = LineSplitter(self.lines.origin, self._limit)
        self._is_new = True

    def _choose_splitter(self, raw: FileIO) -> None:
        """Look how the file begins, once: with a line that is a value, or with the first line of one."""
        if not self._is_new:
            return
        head = _read_head(unpack(raw, self.path.name) if self.packed else raw)
        raw.seek(0)
        self._is_new = not head
        if is_document(head):
            lines = self.lines
            self.lines = DocumentSplitter(lines.origin, self._limit)
            self.lines.restart(lines.position, 0)

    def close(self) -> None:
        """Close the file; ``read`` opens it again."""
        if self._raw is not None:
            if self.lines.position > 0:
                self._renew_mark()
            self._raw.close()
        self._raw = self._stream = None

    def _open(self) -> FileIO | Packed:
        # Without blocking: a pipe of that name would block for ever.
        self._raw = raw = FileIO(os.open(self.path, self._flags), "rb")
        if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            raise OSError("it is not a regular file")
        self._choose_splitter(raw)
        self._stream = stream = unpack(raw, self.path.name) if self.packed else raw
        position, offset = self.lines.position, self.lines.offset
        passed, lines = offset, None
        if self.packed or (self._uncounted and position <= _COUNTED):
            passed, lines = _skip(stream, offset)
        if self._uncounted:
            self._uncounted = False
            self.lines.restart(position, lines)
        changed = "became shorter" if passed < offset else self.what_changed() or self._what_was_replaced()
        if not self.packed:
            raw.seek(offset)
        if changed:
            _logger.warning("%s %s; it is read from its beginning", self.path, changed)
            self.lines.restart(0, 0)
            raw.seek(0)
            self._stream = stream = unpack(raw, self.path.name) if self.packed else raw
        return stream


def _read_head(stream: FileIO | Packed) -> bytes:
    """Return the beginning of a file without the blank lines before it."""
    while chunk := stream.read(CHUNK):
        if head := chunk.lstrip():
            return head if len(head) >= HEAD else head + stream.read(HEAD)
    return b""


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

    def __init__(
        self,
        path: Path,
        *,
        follow: bool,
        limit: int,
        positions: Mapping[str, int],
        stop: Flag,
        marks: Mapping[str, FileMark] | None = None,
    ) -> None:
        origin = str(path)
        position, mark = positions.get(origin, 0), (marks or {}).get(origin)
        self._file = LineFile(path, origin, limit=limit, position=position, mark=mark, follow_links=True)
        self._tail: LineFile | None = None  # of the file that had the name when an earlier run read it
        if follow and self._file.packed:
            raise SourceError(
                f"{path}: a packed file cannot be followed, its end does not grow; read it without following"
            )
        self._follow = follow
        self._stop = stop
        self._file.open()
        if mark is not None and position > 0 and self._file.lines.position == 0:
            self._tail = _open_tail(path, limit, position, mark)

    def __iter__(self) -> Iterator[Record | None]:
        for batch in self.batches(1):
            yield from batch or (None,)

    def batches(self, most: int) -> Iterator[list[Record]]:
        """Yield the records in lists of at most so many; an empty one says that nothing is there right now."""
        file = self._file
        if self._tail is not None:
            yield from self._tail.batches(most)
            yield from _rest(self._tail)
            self._tail.close()
            self._tail = None
        while True:
            yield from file.batches(most)
            if not self._follow:
                yield from _rest(file)
                file.close()
                return
            yield []
            self._stop.wait(POLL)
            if changed := file.what_changed():
                yield from _rest(file)
                file.start_over(changed)
            elif file.was_replaced():
                # To its end: lines may have been written between the last read and the renaming.
                yield from file.batches(most)
                yield from _rest(file)
                file.start_over("was replaced by another file")

    def positions(self) -> Mapping[str, int]:
        """Where the next record starts, by file."""
        return {self._file.lines.origin: (self._tail or self._file).lines.position}

    def marks(self) -> Mapping[str, FileMark]:
        """How the file is recognised after a stop."""
        mark = (self._tail or self._file).mark()
        return {} if mark is None else {self._file.lines.origin: mark}

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        if self._tail is not None:
            self._tail.close()


def _rest(file: LineFile) -> Iterator[list[Record]]:
    """Yield the last line when it has no newline and nothing follows."""
    for record in file.lines.last():
        yield [record]


def _open_tail(path: Path, limit: int, position: int, mark: FileMark) -> LineFile | None:
    """Return the rest of the file that an earlier run read, under the name that it has now; None when it is gone."""
    moved = find_inode(path.parent, mark.inode)
    if moved is not None and moved != path:
        tail = LineFile(moved, str(moved), limit=limit, position=position, mark=mark)
        tail.open()
        if tail.lines.position == position:
            _logger.warning("%s is now called %s; its rest is read first", path, moved.name)
            return tail
        tail.close()
    _logger.warning("%s was replaced; what was written to the earlier file after the last stop is not read", path)
    return None


# JSON from a pipe, standard input or a named one: a value to a line, or values over many lines.


class PipeSource:
    """The records of a pipe, until its writer closes it. A pipe cannot be read again, so it has no positions."""

    def __init__(self, fd: int, origin: str, *, limit: int, owned: bool) -> None:
        self._fd = fd
        self._owned = owned
        self._limit = limit
        self._lines: LineSplitter | DocumentSplitter = LineSplitter(origin, limit)

    def __iter__(self) -> Iterator[Record | None]:
        head = b""  # what has come until it shows how the input is split
        is_split = False
        while True:
            chunk = self._read()
            if not is_split:
                head = self._without_blank(head + (chunk or b""))
                is_values = is_document(head)
                # What is there when nothing more comes for a while, or when there is enough of it, has to do.
                is_split = is_values is not None or len(head) >= HEAD or (not chunk and b"\n" in head) or chunk == b""
                if is_split:
                    yield from self._begin(head, as_values=bool(is_values))
            elif chunk:
                yield from self._lines.split(chunk)
            if chunk is None:
                yield None
            elif not chunk:
                yield from self._lines.last()
                return

    def _read(self) -> bytes | None:
        """Return what has come, nothing at the end, None where nothing came for a while."""
        try:
            if not select.select([self._fd], (), (), POLL)[0]:
                return None
            return os.read(self._fd, self._lines.chunk)
        except (OSError, ValueError) as error:
            lines = self._lines
            raise SourceError(f"{lines.origin}: cannot be read beyond byte {lines.offset}: {error}") from error

    def _without_blank(self, head: bytes) -> bytes:
        """Return the head without the blank lines before it, which count as read."""
        rest = head.lstrip()
        blank = len(head) - len(rest)
        self._lines.restart(self._lines.position + blank, self._lines.line + head.count(b"\n", 0, blank))
        return rest

    def _begin(self, head: bytes, *, as_values: bool) -> Iterator[Record]:
        if as_values:
            position, line = self._lines.position, self._lines.line
            self._lines = DocumentSplitter(self._lines.origin, self._limit)
            self._lines.restart(position, line)
        for at in range(0, len(head), self._lines.chunk):  # no more at once than is read at once
            yield from self._lines.split(head[at : at + self._lines.chunk])

    def positions(self) -> Mapping[str, int]:
        """Return nothing: a pipe cannot be read again."""
        return {}

    def close(self) -> None:
        """Close a named pipe; standard input belongs to the process."""
        if self._owned:
            os.close(self._fd)
            self._owned = False
