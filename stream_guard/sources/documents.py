"""Split chunks of bytes into records, one per JSON value, where a value goes over many lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stream_guard.ports import Record
from stream_guard.sources.splitting import CHUNK, HEAD, LineSplitter

# What changes where a scanner is: quotes, brackets, and an escape, which hides the quote behind it.
_TOKENS: Final = re.compile(rb'["{}\[\]]|\\.', re.DOTALL)
_BETWEEN: Final = b" \t\r\n,]\x00"  # between values: space, and what is left of an array whose items are the records
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def is_document(head: bytes) -> bool:
    """Whether a file that begins so holds JSON values over many lines, and not one value to a line."""
    begin = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
    line, newline, _ = begin.partition(b"\n")
    line = line.rstrip()
    if not newline or line[:1] not in (b"{", b"["):
        return False
    return line[-1:] in (b"{", b"[", b",", b":") or (line[:1] == b"[" and line[-1:] != b"]")


def splitter_for(head: bytes, origin: str, limit: int) -> LineSplitter | DocumentSplitter:
    """Return what splits an input that begins so into records."""
    return DocumentSplitter(origin, limit) if is_document(head) else LineSplitter(origin, limit)


class DocumentSplitter:
    """Splits bytes into records at the ends of JSON values; ``position`` is where the next record starts.

    An array within the limit is one record. Of a larger one each item is a record. Of any other value over the limit
    only the head is kept. Bytes that belong to no value are a record up to the end of their line.
    """

    __slots__ = (
        "_buffer",
        "_depth",
        "_dropped",
        "_in_string",
        "_limit",
        "_scanned",
        "chunk",
        "line",
        "origin",
        "position",
    )

    def __init__(self, origin: str, limit: int) -> None:
        self.origin = origin
        self.chunk = min(CHUNK, limit)
        self._limit = limit
        self.restart(0, 0)

    def restart(self, position: int, lines_before: int | None) -> None:
        """Continue at a position; None means that the lines before it were not counted."""
        self.position = position
        self.line = lines_before or 0
        self._buffer = bytearray()
        self._forget()

    def _forget(self) -> None:
        self._scanned = self._depth = self._dropped = 0
        self._in_string = False

    @property
    def offset(self) -> int:
        """The offset of the next byte to split."""
        return self.position + self._dropped + len(self._buffer)

    def split(self, chunk: bytes) -> Iterator[Record]:
        """Yield the records that end in this chunk; the rest is kept for the next one."""
        self._buffer += chunk
        while True:
            if not self._depth and not self._skip_space():
                return
            end = self._scan()
            if (end or len(self._buffer)) + self._dropped > self._limit and self._open_array():
                continue
            if not end:
                self._cut()
                return
            yield self._take(end)

    def batches(self, chunk: bytes, most: int) -> Iterator[list[Record]]:
        """Yield the same records, each in a list of its own: there are few, and large ones."""
        del most
        for record in self.split(chunk):
            yield [record]

    def last(self) -> Iterator[Record]:
        """Yield what is left at the end of the input: the beginning of a value that has no end."""
        if self._buffer.strip(_BETWEEN):
            yield self._take(len(self._buffer))

    def _skip_space(self) -> bool:
        """Drop what stands between values. Return whether a value begins."""
        rest = self._buffer.lstrip(_BETWEEN)
        if len(rest) < len(self._buffer):
            self._drop(len(self._buffer) - len(rest))
        return bool(rest)

    def _scan(self) -> int:
        """Return where the value ends that the buffer begins with, 0 where it does not end here."""
        buffer = self._buffer
        if not self._depth and buffer[0] not in b"{[":
            newline = buffer.find(b"\n", self._scanned)
            self._scanned = len(buffer)
            return newline + 1
        for token in _TOKENS.finditer(buffer, self._scanned):
            char = buffer[token.start()]
            if char == 0x22:  # a quote
                self._in_string = not self._in_string
            elif not self._in_string and char != 0x5C:
                self._depth += 1 if char in b"{[" else -1
                if not self._depth:
                    return token.end()
        # An escape may be cut in two by the end of the chunk.
        odd = (len(buffer) - len(buffer.rstrip(b"\\"))) % 2
        self._scanned = max(self._scanned, len(buffer) - odd)
        return 0

    def _open_array(self) -> bool:
        """Let the items of an array be the records. Return whether the value is an array."""
        if self._buffer[:1] != b"[" or self._dropped:
            return False
        self._drop(1)
        self._forget()
        return True

    def _cut(self) -> None:
        """Keep only the head of a value that is over the limit already."""
        keep = min(HEAD, self._limit)
        extra = self._scanned - keep
        if self._dropped + len(self._buffer) > self._limit and extra > 0:
            del self._buffer[keep : keep + extra]
            self._scanned = keep
            self._dropped += extra

    def _take(self, end: int) -> Record:
        value, size = bytes(self._buffer[:end]), end + self._dropped
        start, line = self.position, self.line + 1
        self._drop(end)
        self.position += self._dropped
        self._forget()
        if size > self._limit:
            return Record(value[: min(HEAD, self._limit)], self.origin, start, line, truncated=size)
        return Record(value, self.origin, start, line)

    def _drop(self, size: int) -> None:
        self.line += self._buffer.count(b"\n", 0, size)
        del self._buffer[:size]
        self.position += size
        self._scanned = max(0, self._scanned - size)
