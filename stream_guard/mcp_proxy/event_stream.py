"""Server-sent events: read as the standard says, and written in one form."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_KEPT: Final = (b"id", b"event", b"retry")


class SentEvent(NamedTuple):
    """One event: its data, and its other fields as lines."""

    data: bytes
    fields: tuple[bytes, ...]

    def written(self, data: bytes) -> bytes:
        """Return the event with other data, which has no line end; without data, only its fields."""
        return b"\n".join([*self.fields, *([b"data: " + data] if data else []), b"", b""])


class EventStream:
    """Takes a stream apart, however it is cut into pieces."""

    def __init__(self) -> None:
        self._held = b""
        self._data: list[bytes] = []
        self._fields: list[bytes] = []
        self._began = False

    @property
    def size(self) -> int:
        """Bytes that wait for the rest of their event."""
        return len(self._held) + sum(map(len, self._data)) + sum(map(len, self._fields))

    def feed(self, part: bytes) -> list[SentEvent]:
        """Return the events that a further piece completes."""
        self._held += part
        if not self._began:
            if len(self._held) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(self._held):
                return []
            self._held, self._began = self._held.removeprefix(_BYTE_ORDER_MARK), True
        # A carriage return at the end may be half of a line end.
        last = len(self._held) - self._held.endswith(b"\r")
        *lines, rest = _LINE_END.split(self._held[:last])
        self._held = rest + self._held[last:]
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: bytes) -> SentEvent | None:
        if not line:
            event = SentEvent(b"\n".join(self._data), tuple(self._fields))
            self._data, self._fields = [], []
            return event if event.data or event.fields else None
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name in _KEPT:
            self._fields.append(name + b": " + value)
        return None
