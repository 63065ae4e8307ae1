"""HTTP servers: what uvicorn is told, where one listens, and a thread of its own for it.

Connections are bounded: how many there are, and how long one may take to ask and to take its answer.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from threading import Thread
from typing import Any, Final, NamedTuple

import uvicorn
from h11 import SEND_BODY
from uvicorn.protocols.http.h11_impl import H11Protocol

_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"


_HALF_A_HEAD, _NEXT_REQUEST, _HALF_A_BODY, _ANSWERED = range(4)


class ConnectionLimits(NamedTuple):
    """How many connections there may be, and how many seconds one may take to ask and to take its answer."""

    max_connections: int
    header_timeout: float
    body_timeout: float


class BoundedProtocol(H11Protocol):
    """Ends a connection whose next head is not there in time, and makes room for another where all places are taken.

    The one goes that has waited longest for its caller: for the rest of a head, then for another request, then for the
    rest of a body. One that is being answered keeps its place. So nobody keeps others out by sending slowly.

    The time for a head runs from its first byte, or from the start of the connection, and further bytes do not make it
    longer. Between two requests uvicorn's own limit on idle connections applies. A caller that does not take its
    answer is cut off too.
    """

    limits: ConnectionLimits  # of the subclass that ``make_config`` makes: uvicorn makes the instances
    _asking: asyncio.TimerHandle | None = None
    _leaving: asyncio.TimerHandle | None = None
    _since = 0.0  # when it began to wait for its caller

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Wait for a request, or refuse one connection too many."""
        super().connection_made(transport)
        self._idle = self.conn.their_state  # so it is whenever a head may come next
        if len(self.connections) > self.limits.max_connections and not self._make_room():
            transport.write(_FULL)
            transport.close()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        """Take in bytes; the head of a request is awaited from its first one on."""
        if self._asking is None and self.conn.their_state is self._idle:
            self._await_head()
        super().data_received(data)
        if self.conn.their_state is not self._idle and self._asking is not None:
            self._stop(self._asking)
            self._asking = None
            self._since = time.monotonic()

    def on_response_complete(self) -> None:
        """Give the caller some time to take what was written."""
        self._stop(self._leaving)
        self._leaving = None
        self._since = time.monotonic()
        if self.transport.get_write_buffer_size():
            self._leaving = self.loop.call_later(self.limits.body_timeout, self._cut_off)
        super().on_response_complete()
        if self._asking is None and self.conn.their_state is self._idle and self.conn.trailing_data[0]:
            self._await_head()  # it began to come behind the request

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop(self._asking)
        self._stop(self._leaving)
        super().connection_lost(exc)

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()

    def _make_room(self) -> bool:
        """End the connection that has waited longest for its caller; False where none waits."""
        others = [one for one in self.connections if one is not self and isinstance(one, BoundedProtocol)]
        waiting = [(one._stage(), one._since, one) for one in others]  # noqa: SLF001  # of this class
        victims = [entry for entry in waiting if entry[0] < _ANSWERED]
        if not victims:
            return False
        *_, victim = min(victims, key=lambda entry: entry[:2])
        # Not its own call: it would wait until what was written is taken.
        victim.transport.abort()
        self.connections.discard(victim)  # at once: another may come before its end is told
        return True

    def _stage(self) -> int:
        """What the connection waits for, in the order in which places are taken away."""
        if self.conn.their_state is self._idle:
            return _HALF_A_HEAD if self._asking is not None else _NEXT_REQUEST
        return _HALF_A_BODY if self.conn.their_state is SEND_BODY else _ANSWERED

    def _await_head(self) -> None:
        self._since = time.monotonic()
        self._asking = self.loop.call_later(self.limits.header_timeout, self.transport.close)

    def _cut_off(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()


_BACKLOG: Final = 2048
_logger = logging.getLogger(__name__)


def make_config(app: Any, limits: ConnectionLimits, *, grace: int, idle: int = 5) -> uvicorn.Config:
    """Return what uvicorn needs for an application; ``grace`` and ``idle`` are seconds for requests and connections."""
    return uvicorn.Config(
        app,
        http=type("BoundedProtocol", (BoundedProtocol,), {"limits": limits}),
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_graceful_shutdown=grace,
        timeout_keep_alive=idle,
        lifespan="off",
    )


def listen(host: str, port: int) -> tuple[socket.socket, str]:
    """Return a listening socket and its URL; OSError when the address cannot be used."""
    opened = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host.strip("[]"), port))
        opened.listen(_BACKLOG)
    except OSError:
        opened.close()
        raise
    shown, number = opened.getsockname()[:2]
    return opened, f"http://{f'[{shown}]' if ':' in shown else shown}:{number}"


class ServerThread:
    """A server in a thread of its own, for a process whose work is something else."""

    def __init__(self, config: uvicorn.Config, opened: socket.socket, name: str) -> None:
        self._server = uvicorn.Server(config)
        self._socket = opened
        self._thread = Thread(target=self._run, name=f"stream_guard-{name}", daemon=True)
        self._thread.start()

    def close(self, *, at_once: bool = False) -> None:
        """Stop answering, and return when the thread has ended; ``at_once`` cuts off the requests that are open."""
        self._server.force_exit = at_once
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])  # outside the main thread it leaves signals alone
        except Exception:
            _logger.exception("%s has stopped; the work goes on", self._thread.name)
