"""The page: one address on this machine, drawn from what the watcher knows; no text of an agent becomes markup."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Thread
from typing import Any, Final

_POLICY: Final = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'"
_STATIC: Final = {
    "/": ("watch.html", "text/html; charset=utf-8"),
    "/watch.css": ("watch.css", "text/css; charset=utf-8"),
    "/watch.js": ("watch.js", "text/javascript; charset=utf-8"),
}


class WatchPage:
    """Serves the page in threads of its own until it is closed."""

    def __init__(self, state: Callable[[], Any], port: int = 0) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(state))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1})
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(state: Callable[[], Any]) -> type[BaseHTTPRequestHandler]:
    class WatchRequest(BaseHTTPRequestHandler):
        """Answers one browser."""

        def do_GET(self) -> None:
            """Send the page, or what is known now."""
            # A page of somebody else must not read this one under a name of its own for this address.
            port = self.connection.getsockname()[1]
            if self.headers.get("Host") not in (f"127.0.0.1:{port}", f"localhost:{port}"):
                self._send(421, b"ask for 127.0.0.1", "text/plain")
            elif self.path == "/state":
                self._send(200, json.dumps(state()).encode(), "application/json")
            elif self.path in _STATIC:
                name, kind = _STATIC[self.path]
                self._send(200, (files(__package__) / "static" / name).read_bytes(), kind)
            else:
                self._send(404, b"there is only the one page", "text/plain")

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            for name, value in (
                ("Content-Type", kind),
                ("Content-Length", str(len(body))),
                ("Content-Security-Policy", _POLICY),
                ("X-Content-Type-Options", "nosniff"),
                ("Cache-Control", "no-store"),
                ("Referrer-Policy", "no-referrer"),
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name of the base)
            """Say nothing: a browser asks every second."""

    return WatchRequest
