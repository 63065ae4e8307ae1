"""JSON from a pipe, standard input or a named one: a value to a line, or values over many lines."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Mapping

from stream_guard.errors import SourceError
from stream_guard.ports import Record
from stream_guard.sources.documents import DocumentSplitter, splitter_for
from stream_guard.sources.lines import POLL
from stream_guard.sources.splitting import LineSplitter


class PipeSource:
    """The records of a pipe, until its writer closes it. A pipe cannot be read again, so it has no positions."""

    def __init__(self, fd: int, origin: str, *, limit: int, owned: bool) -> None:
        self._fd = fd
        self._owned = owned
        self._limit = limit
        self._lines: LineSplitter | DocumentSplitter = LineSplitter(origin, limit)

    def __iter__(self) -> Iterator[Record | None]:
        lines = self._lines
        is_first = True
        while True:
            try:
                if not select.select([self._fd], (), (), POLL)[0]:
                    yield None
                    continue
                chunk = os.read(self._fd, lines.chunk)
            except (OSError, ValueError) as error:
                raise SourceError(f"{lines.origin}: cannot be read beyond byte {lines.offset}: {error}") from error
            if not chunk:
                yield from lines.last()
                return
            if is_first:
                is_first = False
                self._lines = lines = splitter_for(chunk, lines.origin, self._limit)
            yield from lines.split(chunk)

    def positions(self) -> Mapping[str, int]:
        """Return nothing: a pipe cannot be read again."""
        return {}

    def close(self) -> None:
        """Close a named pipe; standard input belongs to the process."""
        if self._owned:
            os.close(self._fd)
            self._owned = False
