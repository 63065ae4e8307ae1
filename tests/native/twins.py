"""What the native module does, in Python: the reference that a search holds it to."""

from __future__ import annotations

import json
import re
from typing import Final

_LEVELS: Final = 64
_KEYS: Final = 256  # of all objects that are open at one place
_OF_ONE: Final = 48
_SPACE: Final = re.compile(rb"[ \n\r\t]*")
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,2})?(?![0-9])")
_WORD: Final = re.compile(rb"true|false|null")
_STRING: Final = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')


class _NotPlainError(Exception):
    """The text is not plain."""


class _PlainReader:
    """Reads a text from left to right. ``open`` has the keys of every object around the place, None for an array."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.at = 0
        self.open: list[set[bytes] | None] = []

    def take(self, pattern: re.Pattern[bytes]) -> bytes:
        """Return what matches here, and go behind it."""
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _NotPlainError
        self.at = found.end()
        return found[0]

    def peek(self) -> bytes:
        """Return the next byte after space, without taking it."""
        self.take(_SPACE)
        return self.text[self.at : self.at + 1]

    def take_sign(self, sign: bytes) -> None:
        """Go behind a sign and the space before it."""
        if self.peek() != sign:
            raise _NotPlainError
        self.at += 1

    def take_string(self) -> bytes:
        """Return a string of whole characters as it is written."""
        written = self.take(_STRING)
        try:
            json.loads(written.decode()).encode()  # fails for half of a surrogate pair
        except UnicodeError:
            raise _NotPlainError from None
        return written

    def take_key(self, keys: set[bytes]) -> None:
        """Go behind a key and its colon."""
        if self.peek() != b'"':
            raise _NotPlainError
        key = self.take_string()
        open_keys = sum(len(known) for known in self.open if known is not None)
        if b"\\" in key or key in keys or len(keys) == _OF_ONE or open_keys == _KEYS:
            raise _NotPlainError
        keys.add(key)
        self.take_sign(b":")

    def take_value(self) -> None:
        """Go behind a value."""
        first = self.peek()
        if first == b'"':
            self.take_string()
        elif first in (b"{", b"["):
            self.take_all_in(first)
        else:
            self.take(_WORD if first in (b"t", b"f", b"n") else _NUMBER)

    def take_all_in(self, first: bytes) -> None:
        """Go behind an object or an array."""
        if len(self.open) == _LEVELS:
            raise _NotPlainError
        self.at += 1
        keys, last = (set[bytes](), b"}") if first == b"{" else (None, b"]")
        self.open.append(keys)
        more = self.peek() != last
        while more:
            if keys is not None:
                self.take_key(keys)
            self.take_value()
            more = self.peek() != last
            if more:
                self.take_sign(b",")
        self.at += 1
        self.open.pop()


def is_plain_json(value: bytes) -> bool:
    """Whether a text is JSON (RFC 8259) that no reader refuses, and no object in it gives a key twice.

    False proves nothing: a text is not plain either with more than 64 levels of nesting, 48 keys in one object or
    256 in the objects around one place, an escape in a key, more than 18 digits in a row, or an exponent of more
    than two.
    """
    reader = _PlainReader(value)
    try:
        reader.take_value()
        return reader.peek() == b"" and reader.at == len(value)
    except _NotPlainError:
        return False
