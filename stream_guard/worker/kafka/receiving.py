"""Receiving: what a broker answers is put together once, when all of it is there.

The reader of asyncio appends each piece to a buffer, wakes its caller for it, and copies the whole at the end. A
response with fetched records has some megabytes, in about a hundred pieces.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import conn


class FrameReader(asyncio.StreamReader):
    """Keeps the pieces as they came. A broker sends only what was asked for, so they need no limit."""

    _start = 0  # how much of the first piece is read
    _here = 0  # bytes that are not read
    _wanted = 0  # bytes that the caller waits for

    _pieces: list[bytes]

    @classmethod
    def take_over(cls, reader: Any) -> None:
        """Change an unused reader into one of this class; its maker holds on to it."""
        reader.__class__ = cls
        reader._pieces = []  # noqa: SLF001  # it is one of ours now

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # what transports give
        """Take the next piece."""
        self._pieces.append(data)
        self._here += len(data)
        if self._here >= self._wanted:
            self._wakeup_waiter()  # type: ignore[attr-defined]  # as the reader itself does

    def at_eof(self) -> bool:
        """Whether nothing is left and nothing will come."""
        return super().at_eof() and not self._here

    async def readexactly(self, n: int) -> bytes:
        """Return so many bytes; IncompleteReadError with those that came when the connection is closed before."""
        own: Any = self  # its names are known to no type checker
        if own._exception is not None:  # noqa: SLF001  # our base's
            raise own._exception  # noqa: SLF001  # as above
        self._wanted = n
        while self._here < n:
            if own._eof:  # noqa: SLF001  # as above
                raise asyncio.IncompleteReadError(self._take(self._here), n)
            await own._wait_for_data("readexactly")  # noqa: SLF001  # as above
        self._wanted = 0
        return self._take(n)

    def _take(self, size: int) -> bytes:
        """Return so many of the bytes that are here."""
        found: list[bytes | memoryview] = []
        pieces, start, left = self._pieces, self._start, size
        used = 0
        while left:
            piece = pieces[used]
            end = min(len(piece), start + left)
            found.append(memoryview(piece)[start:end])
            left -= end - start
            start = end
            if end == len(piece):
                used, start = used + 1, 0
        del pieces[:used]
        self._start = start
        self._here -= size
        return b"".join(found)


class FrameProtocol(conn.AIOKafkaProtocol):  # type: ignore[misc]  # the client is untyped
    """The client's protocol, with our reader."""

    def __init__(self, closed: Any, reader: Any, **options: Any) -> None:
        FrameReader.take_over(reader)
        super().__init__(closed, reader, **options)


def receive_frames() -> None:
    """Have the clients of this process receive by our reader. They make a protocol by its name, in no other way."""
    conn.AIOKafkaProtocol = FrameProtocol
