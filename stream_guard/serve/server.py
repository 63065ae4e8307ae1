"""Listen on a socket, and serve the application until the process is told to stop."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from stream_guard.errors import SettingsError
from stream_guard.settings import ApiSettings

_BACKLOG: Final = 2048
_GRACE: Final = 5  # seconds for open requests after a signal to stop


def listen(settings: ApiSettings) -> tuple[socket.socket, str]:
    """Return a listening socket and its URL, or raise SettingsError when the address cannot be used."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((settings.host.strip("[]"), settings.port))
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise SettingsError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; "
            "set api.host and api.port, or stop what listens there"
        ) from None
    host, port = opened.getsockname()[:2]
    return opened, f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve(app: ASGIApp, opened: socket.socket, ready: Callable[[], None]) -> None:
    """Answer requests until SIGINT or SIGTERM; open requests are finished first."""
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=_GRACE, lifespan="off")
    config.load()
    # After it has stopped, uvicorn raises the signal again; that must not end the process before clean-up.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore_signal)
    ready()  # the socket listens already: connections from here on are answered
    uvicorn.Server(config).run(sockets=[opened])


def _ignore_signal(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: uvicorn has handled the signal."""
