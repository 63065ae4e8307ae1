"""A receiver over HTTP in this process: it remembers requests, and answers as it is told."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Event, Thread
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec


class Request(NamedTuple):
    """A request as it came."""

    path: str
    headers: Mapping[str, str]  # by names in small letters
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Reply(NamedTuple):
    """An answer to give."""

    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes = b"{}"


class HttpEnd:
    """Listens on a free port of loopback. ``replies`` are given in turn, then ``reply`` for ever.

    ``certificate`` is a file with a key and its certificate, for HTTPS.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        self.requests: list[Request] = []
        self.replies: list[Reply] = []
        self.reply = Reply()
        self.held_by: Event | None = None  # no answer is given before it is set
        self._came = Condition()
        end = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with end._came:
                    end.requests.append(Request(self.path, headers, body))
                    end._came.notify_all()
                if end.held_by is not None:
                    end.held_by.wait()
                reply = end.next_reply()
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            do_OPTIONS = do_POST  # noqa: N815  # the name that the server looks for

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def next_reply(self) -> Reply:
        """Return the answer to the request that came last."""
        return self.replies.pop(0) if self.replies else self.reply

    def wait_for(self, number: int, seconds: float = 120.0) -> bool:
        """Return whether so many requests have come, as soon as they have."""
        with self._came:
            return self._came.wait_for(lambda: len(self.requests) >= number, seconds)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
