"""JSON from a pipe, standard input or a named one: a value to a line, or values over many lines."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Mapping

from stream_guard.errors import SourceError
from stream_guard.ports import Record
from stream_guard.sources.documents import DocumentSplitter, is_document
from stream_guard.sources.lines import POLL
from stream_guard.sources.splitting import HEAD, LineSplitter


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
