"""Follow one JSON value through pieces of bytes: it ends, is still open, or is no JSON."""

from __future__ import annotations

import re
from typing import Final

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
