"""HTTP/1.1 connections: how many there are, and how long one may take to say what it wants."""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from stream_guard.settings import ApiSettings

_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"


def bounded_protocol(settings: ApiSettings) -> type[H11Protocol]:
    """Return uvicorn's protocol with a limit on connections and on the time that a request's head may take."""

    class BoundedProtocol(H11Protocol):
        """Ends a connection whose next head is not there in time.

        The time runs from the first byte of a head, or from the start of the connection, and further bytes do not
        make it longer. Between two requests uvicorn's own limit on idle connections applies.
        """

        _patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
            super().connection_made(transport)
            self._idle = self.conn.their_state  # so it is whenever a head may come next
            if len(self.connections) > settings.max_connections:
                transport.write(_FULL)
                transport.close()
            else:
                self._await_head()

        def data_received(self, data: bytes) -> None:
            if self._patience is None and self.conn.their_state is self._idle:
                self._await_head()
            super().data_received(data)
            if self.conn.their_state is not self._idle:
                self._stop_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _await_head(self) -> None:
            self._patience = self.loop.call_later(settings.header_timeout, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

    return BoundedProtocol
