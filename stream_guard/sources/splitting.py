"""Split chunks of bytes into records, one per line, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Final

from stream_guard.ports import Record

HEAD: Final = 64 * 1024  # what is kept of a line over the limit: enough for a dead letter
# Larger chunks leave the processor's cache, and smaller ones cost more calls; measured.
CHUNK: Final = 128 * 1024
_SPACE: Final = 0x20  # no sign that is blank is above it


class LineSplitter:
    """Splits bytes into records at newlines; ``position`` is where the next record starts.

    A record keeps its newline: JSON ignores it, and removing it would cost more than splitting does. A blank line is
    no record. Of a line over the limit only the head is kept, whatever its size.
    """

    __slots__ = ("_held", "_limit", "_pieces", "_step", "chunk", "line", "origin", "position")

    def __init__(self, origin: str, limit: int) -> None:
        self.origin = origin
        # No line inside one chunk is over the limit, so only lines across chunks have to be measured.
        self.chunk = min(CHUNK, limit)
        self._limit = limit
        self.restart(0, 0)

    def restart(self, position: int, lines_before: int | None) -> None:
        """Continue at a position; None means that the lines before it were not counted."""
        self.position = position
        self.line = lines_before or 0
        self._step = 0 if lines_before is None else 1
        self._pieces: list[bytes] = []
        self._held = 0

    @property
    def offset(self) -> int:
        """The offset of the next byte to split."""
        return self.position + self._held

    def split(self, chunk: bytes) -> Iterator[Record]:
        """Yield the records that end in this chunk; the rest is kept for the next one."""
        for batch in self.batches(chunk, 1):
            yield from batch

    def batches(self, chunk: bytes, most: int) -> Iterator[list[Record]]:
        """Yield the same records in lists of at most so many; ``position`` is then behind the whole list."""
        start = 0
        if self._held:
            start = chunk.find(b"\n") + 1
            if not start:
                self._hold(chunk)
                return
            if (record := self._finish(chunk[:start])) is not None:
                yield [record]
        end = max(start, chunk.rfind(b"\n") + 1)
        records, line = self._records_of(chunk[start:end])
        position = self.position + end - start
        if end < len(chunk):
            self._hold(chunk[end:])
        for at in range(0, len(records), most):
            batch = records[at : at + most]
            # Before they are yielded: a checkpoint taken then must not repeat them.
            if at + most < len(records):
                last = batch[-1]
                self.position, self.line = last.position + len(last.value), last.line
            else:
                self.position, self.line = position, line
            yield batch
        self.position, self.line = position, line

    def _records_of(self, lines: bytes) -> tuple[list[Record], int]:
        """Return the lines as records, without blank ones, and the number of the last line.

        The first line begins at the position.
        """
        origin, position, line, step = self.origin, self.position, self.line, self._step
        records: list[Record] = []
        if lines.isspace():  # a flood of them
            return records, line + step * lines.count(b"\n")
        for value in BytesIO(lines).readlines():
            line += step
            if value[0] > _SPACE or not value.isspace():
                records.append(Record(value, origin, position, line))
            position += len(value)
        return records, line

    def last(self) -> Iterator[Record]:
        """Yield the last line when it has no newline and nothing follows."""
        if self._held and (record := self._finish(b"")) is not None:
            yield record

    def _hold(self, piece: bytes) -> None:
        if self._held <= self._limit:
            self._pieces.append(piece)
        self._held += len(piece)
        if self._held > self._limit + 1:  # 1 for a line end
            self._pieces = [b"".join(self._pieces)[:HEAD]]

    def _finish(self, piece: bytes) -> Record | None:
        size = self._held + len(piece)
        content = size - piece.endswith(b"\n")
        value = b"".join([*self._pieces, piece])
        self.line += self._step
        start = self.position
        self.position, self._pieces, self._held = start + size, [], 0
        if content > self._limit:
            return Record(value[: min(HEAD, self._limit)], self.origin, start, self.line, truncated=content)
        return None if value.isspace() else Record(value, self.origin, start, self.line)
