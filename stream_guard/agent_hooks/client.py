"""The client: questions to a gate over one connection, within one deadline.

``http.client`` and ``urllib`` would take longer to import than a gate takes to answer, so that the few lines of HTTP
that a gate speaks are here. ``json`` is imported by who sends values, not bytes.
"""

from __future__ import annotations

import socket
import time

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MOST = 64 * 2**20  # bytes of an answer; more is no answer of a gate
MARK = "hook-answer"  # "2 0": the exit code, and how many bytes of the body are for standard output
CUT = -1  # the connection was closed in the middle
_PORTS = {"http": 80, "https": 443}


class GateError(Exception):
    """The gate gave no answer that can be used. The text says why; ``status`` is that of HTTP, CUT, or 0."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class GateReply:
    """What came back over HTTP. ``mark`` is the header by which a gate says that the body is the answer of a hook."""

    __slots__ = ("body", "mark", "status")

    def __init__(self, status: int, mark: str) -> None:
        self.status, self.mark, self.body = status, mark, b""


class GateClient:
    """A connection to a gate. Everything that is asked must be answered within ``timeout`` seconds of the start."""

    def __init__(self, url: str, *, token: str = "", timeout: float = 2.0) -> None:
        self._url, self._token, self._timeout = url, token, timeout
        self._scheme, self._host, self._port, self._path = _parse(url)
        self._deadline = time.monotonic() + timeout
        self._socket: socket.socket | None = None

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request; GateError when there is none, or it is a refusal."""
        from json import dumps, loads  # noqa: PLC0415  (takes as long to import as the socket)

        reply = self.exchange(path, dumps(body).encode())
        try:
            said = loads(reply.body)
        except ValueError:
            said = None
        if reply.status == 200 and isinstance(said, dict):
            return said
        why = str(said.get("error", "")) if isinstance(said, dict) else "what answers there is no gate"
        raise GateError(f"the gate at {self._url} refused the question with {reply.status}: {why}", reply.status)

    def exchange(self, path: str, body: bytes) -> GateReply:
        """Return what the gate replies to bytes; GateError when it cannot be asked, or breaks off."""
        try:
            return self._exchange(self._request(path, body))
        except ConnectionResetError:
            self.close()
            raise GateError(f"the gate at {self._url} closed the connection without an answer", CUT) from None
        except TimeoutError:
            raise GateError(f"the gate at {self._url} did not answer within {self._timeout:g} seconds") from None
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise GateError(f"the gate at {self._url} cannot be reached: {why}; is `stream-guard serve` up?") from None

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _request(self, path: str, body: bytes) -> bytes:
        host = f"[{self._host}]" if ":" in self._host else self._host
        lines = [
            f"POST {self._path}{path} HTTP/1.1",
            f"Host: {host}:{self._port}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *([f"Authorization: Bearer {self._token}"] if self._token else []),
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    def _exchange(self, request: bytes) -> GateReply:
        connection = self._connect()
        connection.settimeout(self._left())
        try:  # noqa: SIM105  (contextlib is one more import)
            connection.sendall(request)
        except ConnectionError:
            pass  # a request that is too large is answered before it was read whole
        received = bytearray()
        while b"\r\n\r\n" not in received:
            self._receive(connection, received)
        head, _, rest = bytes(received).partition(b"\r\n\r\n")
        reply, length, is_last = _read_head(head)
        body = bytearray(rest)
        while len(body) < length:
            self._receive(connection, body)
        if is_last:
            self.close()
        reply.body = bytes(body[:length])
        return reply

    def _connect(self) -> socket.socket:
        if self._socket is None:
            self._socket = self._connect_safely() if self._scheme == "https" else self._connect_plainly()
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def _connect_plainly(self) -> socket.socket:
        if not self._host.replace(".", "").isdecimal():
            return socket.create_connection((self._host, self._port), self._left())
        # An address needs no look-up, for which Python would import the tables of international names.
        opened = socket.socket()
        opened.settimeout(self._left())
        try:
            opened.connect((self._host, self._port))
        except OSError:
            opened.close()
            raise
        return opened

    def _connect_safely(self) -> socket.socket:
        import ssl  # noqa: PLC0415  # takes as long to import as all the rest

        opened = socket.create_connection((self._host, self._port), self._left())
        return ssl.create_default_context().wrap_socket(opened, server_hostname=self._host)

    def _receive(self, connection: socket.socket, received: bytearray) -> None:
        connection.settimeout(self._left())
        part = connection.recv(65536)
        if not part or len(received) + len(part) > _MOST:
            raise ConnectionResetError("the connection was closed before the answer was whole")
        received += part

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class RunningGate:
    """A gate over HTTP. ``open_client`` makes a connection, which answers one question within its time."""

    def __init__(self, open_client: Callable[[], GateClient]) -> None:
        self._open_client = open_client

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request; GateError when there is none."""
        client = self._open_client()
        try:
            return client.post(path, body)
        finally:
            client.close()


def _parse(url: str) -> tuple[str, str, int, str]:
    """Return scheme, host, port and path of an address; GateError when it is none of a gate."""
    scheme, between, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, str(_PORTS.get(scheme, 0))
    host = host.strip("[]")
    plain = url.isascii() and url.isprintable() and " " not in url and "@" not in authority
    if not between or scheme not in _PORTS or not host or not plain or not port.isdecimal() or int(port) > 65535:
        raise GateError(f"{url!r} is no address of a gate; write http://127.0.0.1:8750")
    return scheme, host, int(port), f"/{path.strip('/')}" if path.strip("/") else ""


def _read_head(head: bytes) -> tuple[GateReply, int, bool]:
    """Return the reply of a head, the length of its body, and whether the connection ends with it."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    named = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = named.get("content-length", "")
    if not words[0].startswith("HTTP/") or not words[1:] or not words[1].isdecimal() or not length.isdecimal():
        raise GateError("what answers there speaks no HTTP that a gate speaks")
    reply = GateReply(int(words[1]), named.get(MARK, ""))
    return reply, int(length), named.get("connection", "").lower() == "close"
