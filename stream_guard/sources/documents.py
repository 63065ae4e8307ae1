"""Split chunks of bytes into records, one per JSON value, where a value goes over many lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stream_guard.ports import Record
from stream_guard.sources.splitting import CHUNK, HEAD

_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_BETWEEN: Final = b" \t\r\n,]\x00"  # between values: space, and what is left of an array whose items are the records
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_TRIES: Final = 16  # how often bytes may be scanned in vain: so many lines that are no JSON may stand before a value


def is_document(head: bytes) -> bool | None:
    """Whether a file that begins so holds JSON values over many lines, and not one value to a line.

    The first value that reads as JSON decides; lines before it that are no JSON do not. None: nothing decides yet.
    """
    at = _line_start(head, len(head) - len(head.removeprefix(_BYTE_ORDER_MARK)))
    for _ in range(_TRIES):
        newline = head.find(b"\n", at) + 1
        if head.startswith((b"{", b"["), at):
            end = JsonScanner(at).scan(head)
            if end == OPEN:
                return True if newline else None
            if end != BROKEN:  # an item of an array that is no JSON as a whole has a comma behind it
                return b"\n" in head[at:end] or head[end : newline or None].lstrip()[:1] == b","
        if not newline:
            return None
        at = _line_start(head, newline)
    return False


def _line_start(text: bytes | bytearray, at: int) -> int:
    """Return the place of the first sign from a place on that is no space."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


class DocumentSplitter:
    """Splits bytes into records at the ends of JSON values; ``position`` is where the next record starts.

    An array within the limit is one record. Of a larger one each item is a record. Of any other value over the limit
    only the head is kept. A line at which no value begins is a record. So is the first line of what turns out to be no
    JSON; what follows it is looked at anew.
    """

    __slots__ = (
        "_as_line",
        "_broken_at",
        "_buffer",
        "_dropped",
        "_head",
        "_limit",
        "_opened",
        "_scanner",
        "_tries",
        "chunk",
        "line",
        "origin",
        "position",
    )

    def __init__(self, origin: str, limit: int) -> None:
        self.origin = origin
        self.chunk = min(CHUNK, limit)
        self._limit = limit
        self._head = min(HEAD, limit)  # bytes that are kept of what is over the limit
        self.restart(0, 0)

    def restart(self, position: int, lines_before: int | None) -> None:
        """Continue at a position; None means that the lines before it were not counted."""
        self.position = position
        self.line = lines_before or 0
        self._buffer = bytearray()
        self._broken_at = 0  # how far bytes were scanned in vain
        self._tries = 0  # how often they were, since the position was there
        self._forget()

    def _forget(self) -> None:
        self._scanner = JsonScanner()
        self._as_line = False  # what begins here is no JSON
        self._dropped = 0
        self._opened = 0  # arrays, one inside the other

    @property
    def offset(self) -> int:
        """The offset of the next byte to split."""
        return self.position + self._dropped + len(self._buffer)

    def split(self, chunk: bytes) -> Iterator[Record]:
        """Yield the records that end in this chunk; the rest is kept for the next one."""
        self._buffer += chunk
        while self._scanner.at or self._skip_space():
            end = self._find_end()
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
        """Yield what is left at the end of the input: a value that has no end, and whole ones that stand behind it."""
        while self._buffer.strip(_BETWEEN):
            start, end = self._find_whole()
            if start:
                yield self._take(start)
            if end > start:
                yield self._take(end - start)
            self._skip_space()

    def _find_whole(self) -> tuple[int, int]:
        """Return where the first line begins that a whole value begins with, and the end of that value."""
        buffer, at = self._buffer, 0
        for _ in range(0 if self._dropped else _TRIES):
            at = _line_start(buffer, at)
            if buffer.startswith((b"{", b"["), at) and (end := JsonScanner(at).scan(buffer)) > 0:
                return at, end
            at = buffer.find(b"\n", at) + 1
            if not at:
                break
        return len(buffer), len(buffer)

    def _skip_space(self) -> bool:
        """Drop what stands between values. Return whether a value begins."""
        if not self.position:
            self._drop(len(self._buffer) - len(self._buffer.removeprefix(_BYTE_ORDER_MARK)))
        rest = self._buffer.lstrip(_BETWEEN)
        if len(rest) < len(self._buffer):
            self._drop(len(self._buffer) - len(rest))
        return bool(rest)

    def _find_end(self) -> int:
        """Return where the record ends that the buffer begins with, 0 where it does not end here."""
        if self._scanner.at == 0:
            if self.position >= self._broken_at:
                self._tries = 0
            self._as_line = self._buffer[0] not in b"{[" or self._tries >= _TRIES
        if not self._as_line:
            end = self._scanner.scan(self._buffer)
            if end != BROKEN:
                return end
            if self._dropped:  # over the limit, and no JSON: it ends before the line in which that shows
                return self._buffer.rfind(b"\n", self._head, self._scanner.at) + 1 or self._scanner.at
            self._broken_at = max(self._broken_at, self.position + self._scanner.at)
            self._tries += 1
            self._as_line, self._scanner = True, JsonScanner()
        end = self._buffer.find(b"\n", self._scanner.at) + 1
        self._scanner.at = len(self._buffer)
        return end

    def _open_array(self) -> bool:
        """Let the items of an array be the records. Return whether the value is an array."""
        opened = self._opened + 1
        if self._buffer[:1] != b"[" or self._dropped or self._as_line or opened > _TRIES:
            return False
        self._drop(1)
        self._forget()
        self._opened = opened
        return True

    def _cut(self) -> None:
        """Keep only the head of a value that is over the limit already."""
        extra = self._scanner.at - self._head
        if self._dropped + len(self._buffer) > self._limit and extra > 0:
            del self._buffer[self._head : self._scanner.at]
            self._scanner.at = self._head
            self._dropped += extra

    def _take(self, end: int) -> Record:
        value, size = bytes(self._buffer[:end]), end + self._dropped
        start, line = self.position, self.line + 1
        self._drop(end)
        self.position += self._dropped
        self._forget()
        if size > self._limit:
            return Record(value[: self._head], self.origin, start, line, truncated=size)
        return Record(value, self.origin, start, line)

    def _drop(self, size: int) -> None:
        self.line += self._buffer.count(b"\n", 0, size)
        del self._buffer[:size]
        self.position += size


# Follow one JSON value through pieces of bytes: it ends, is still open, or is no JSON.


OPEN: Final = 0  # what was seen so far is the beginning of a value
BROKEN: Final = -1  # no JSON value begins so

MAX_DEPTH: Final = 256  # decoders refuse values that are nested deeper than 200 levels
_LONGEST: Final = 10_000  # characters of a number

# A quote begins a string, whose end may be in another piece.
_TOKEN: Final = re.compile(rb"[ \t\r\n]*+(?:([\"{}\[\],:])|([-+.0-9A-Za-z_]++))")
# It ends in its line: whoever leaves a quote out does not get the lines that follow.
_STRING: Final = re.compile(rb'[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+')

# What may come next.
_VALUE, _ITEM, _KEY, _NAME, _COLON, _COMMA = range(6)  # _ITEM and _NAME: the end of an empty array or object too
_NEXT: Final = {
    (_VALUE, "{"): _NAME,
    (_VALUE, "["): _ITEM,
    (_ITEM, "{"): _NAME,
    (_ITEM, "["): _ITEM,
    (_COLON, ":"): _VALUE,
}


class JsonScanner:
    """Where in a value the bytes before ``at`` end. The buffer is the caller's; the value begins at the first place."""

    __slots__ = ("_expected", "_in_string", "_open", "at")

    def __init__(self, at: int = 0) -> None:
        self.at = at
        self._open = bytearray()  # the brackets that are open
        self._expected = _VALUE
        self._in_string = False

    def scan(self, buffer: bytes | bytearray) -> int:
        """Return where the value ends, OPEN where it does not end here, or BROKEN; ``at`` is then the place."""
        while True:
            if self._in_string and not self._end_string(buffer):
                # A string may be cut before an escape, or inside of one.
                return OPEN if buffer[self.at :] in (b"", b"\\") else BROKEN
            token = _TOKEN.match(buffer, self.at)
            if token is None:
                if buffer[self.at :].strip(b" \t\r\n"):
                    return BROKEN
                self.at = len(buffer)
                return OPEN
            start, end = token.start(token.lastindex or 0), token.end()
            if token.lastindex == 2:
                if end == len(buffer) and end - start < _LONGEST:  # it may go on
                    return OPEN
                sign = "0"
            else:
                sign = chr(buffer[start])
            if not self._take(sign):
                self.at = start
                return BROKEN
            self.at = end
            if not self._open:
                return end

    def _end_string(self, buffer: bytes | bytearray) -> bool:
        """Go on to the end of a string; False where it has none here."""
        if (rest := _STRING.match(buffer, self.at)) is not None:  # always: it may be empty
            self.at = rest.end()
        if buffer[self.at : self.at + 1] != b'"':
            return False
        self._in_string = False
        self.at += 1
        return True

    def _take(self, sign: str) -> bool:
        """Note a sign; False where it may not stand here. ``0`` stands for numbers and words."""
        expected = self._expected
        if (then := _NEXT.get((expected, sign))) is not None:
            if sign != ":":
                self._open.append(ord(sign))
            self._expected = then
            return len(self._open) <= MAX_DEPTH
        if sign in "]}":
            return self._close(sign)
        if sign == ",":
            self._expected = _VALUE if self._open[-1:] == b"[" else _KEY
            return expected == _COMMA
        if sign == '"' and expected in (_KEY, _NAME):
            self._in_string, self._expected = True, _COLON
            return True
        if sign in '0"' and expected in (_VALUE, _ITEM) and self._open:
            self._in_string, self._expected = sign == '"', _COMMA
            return True
        return False

    def _close(self, sign: str) -> bool:
        empty, opened = (_ITEM, b"[") if sign == "]" else (_NAME, b"{")
        if self._expected not in (_COMMA, empty) or self._open[-1:] != opened:
            return False
        del self._open[-1:]
        self._expected = _COMMA
        return True
