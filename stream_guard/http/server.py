"""Servers: what uvicorn is told, where one listens, and a thread of its own for it."""

from __future__ import annotations

import logging
import socket
from threading import Thread
from typing import Any, Final

import uvicorn

from stream_guard.http.protocol import BoundedProtocol, ConnectionLimits

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
