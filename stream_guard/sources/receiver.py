"""An OTLP/HTTP receiver: traces and logs, as protobuf or JSON, plain or in gzip. It answers when they are durable."""

from __future__ import annotations

import hmac
import logging
import socket
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Lock, Thread
from typing import Any, Final

import msgspec

from stream_guard.storage.spool import Spool, SpoolFull, SpoolRefusal

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
# What a request brought, as the spool keeps it.
SORTS: Final = {("/v1/traces", PROTOBUF): 1, ("/v1/logs", PROTOBUF): 2, ("/v1/traces", JSON): 3, ("/v1/logs", JSON): 4}
CONTENT_TYPES: Final = {sort: media for (_, media), sort in SORTS.items()}
_PATHS: Final = tuple({path: None for path, _ in SORTS})
_CLIENT_TIMEOUT: Final = 30.0
_RETRY_AFTER: Final = 5  # seconds
_MOST_CLIENTS: Final = 128
_LONGEST_LINE: Final = 1 << 10
_BODY_TIMEOUT: Final = 60.0  # seconds for a whole body
_PARTING: Final = 2.0  # seconds in which a client that was refused may go on sending
_PIECE: Final = 1 << 16
_IN_FLIGHT: Final = 256 << 20  # bytes of requests that are being read, unpacked ones at their largest

Check = Callable[[bytes], str]
"""Returns what is wrong with a body, or an empty text."""

_logger = logging.getLogger(__name__)


class _Refusal(Exception):  # noqa: N818  (becomes an answer)
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class OtlpReceiver:
    """Listens for exports and adds each to a spool. A request is answered with 200 when it is durable.

    What cannot be taken now is answered with 429 or 503 and ``Retry-After``: exporters try again. What can never be
    taken is answered with 400, 413 or 415. With a token, every request must carry it.
    """

    def __init__(self, host: str, port: int, spool: Spool, *, most: int, token: str = "") -> None:
        handler = type("_Handler", (_OtlpHandler,), {"spool": spool, "memory": _Memory(), "most": most, "token": token})
        self._server = _OtlpServer((host, port), handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), name="stream_guard-otlp", daemon=True)
        self._thread.start()
        shown, self.port = self._server.server_address[:2]
        name = shown.decode() if isinstance(shown, bytes | bytearray) else str(shown)
        self.url = f"http://{f'[{name}]' if ':' in name else name}:{self.port}"

    def close(self) -> None:
        """Stop listening. Requests that are being read are cut off: they were not answered."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Memory:
    """The bytes of all requests that are being read."""

    def __init__(self, most: int = _IN_FLIGHT) -> None:
        self._left = most
        self._lock = Lock()

    def take(self, size: int) -> bool:
        """Count so many bytes, unless they are too many."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give_back(self, size: int) -> None:
        """Count so many bytes no more."""
        with self._lock:
            self._left += size


class _OtlpServer(ThreadingHTTPServer):
    """A thread for each connection, and not too many of them."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._free = BoundedSemaphore(_MOST_CLIENTS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own, or say that there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        busy = f"HTTP/1.1 503 Busy\r\nRetry-After: {_RETRY_AFTER}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        with suppress(OSError):  # it may have gone
            request.sendall(busy.encode())
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the requests of one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, _request: Any, _client_address: Any) -> None:
        """Log what a connection raised, without its content."""
        _logger.debug("a connection to the receiver broke off")


class _OtlpHandler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "stream-guard", ""
    timeout = _CLIENT_TIMEOUT
    spool: Spool
    memory: _Memory
    most: int
    token: str
    _is_refused = False

    def do_POST(self) -> None:
        """Take an export."""
        media = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._reserved = 0
        try:
            self._check_token()
            sort = self._sort(media)
            body = self._body()
            _check_body(media, body)
            self.spool.add(body, sort)
        except _Refusal as refusal:
            self._answer(refusal.status, media, str(refusal), close=True)
        except SpoolFull as refusal:
            self._answer(429, media, f"try again later: {refusal}")
        except SpoolRefusal as refusal:
            self._answer(503, media, f"try again later: {refusal}")
        except TimeoutError:
            self.close_connection = True
        else:
            self._answer(200, media)
        finally:
            self.memory.give_back(self._reserved)

    def _check_token(self) -> None:
        given = self.headers.get("authorization", "").removeprefix("Bearer ").strip()
        if self.token and not hmac.compare_digest(given.encode(), self.token.encode()):
            raise _Refusal(401, "send the token of the receiver: Authorization: Bearer ...")

    def _sort(self, media: str) -> int:
        path = self.path.partition("?")[0].rstrip("/")
        if path not in _PATHS:
            raise _Refusal(404, f"there is no {path[:100]!r}; exports go to {' and '.join(_PATHS)}")
        if media not in (PROTOBUF, JSON):
            raise _Refusal(415, f"send {PROTOBUF} or {JSON}")
        return SORTS[path, media]

    def _body(self) -> bytes:
        """Return the body, unpacked; refuse one that is too large before it fills the memory."""
        packing = self.headers.get("content-encoding", "identity").strip().lower()
        if packing not in ("gzip", "identity", ""):
            raise _Refusal(415, "send gzip, or nothing that packs")
        raw = self._chunked() if "chunked" in self.headers.get("transfer-encoding", "").lower() else self._counted()
        if packing != "gzip":
            return raw
        self._reserve(self.most)
        unpacker = zlib.decompressobj(wbits=31)
        try:
            body = unpacker.decompress(raw, self.most + 1)
        except zlib.error as error:
            raise _Refusal(400, f"the body is not gzip: {error}") from None
        if len(body) > self.most:
            raise _Refusal(413, f"the export has more than {self.most} bytes when it is unpacked; send less at once")
        if not unpacker.eof:
            raise _Refusal(400, "the gzip body ends too early")
        return body

    def _counted(self) -> bytes:
        written = self.headers.get("content-length", "")
        if not written.isascii() or not written.isdigit():
            raise _Refusal(411, "send a Content-Length, or chunks")
        size = int(written)
        if size > self.most:
            raise _Refusal(413, f"the export has more than {self.most} bytes; send less at once")
        self._reserve(size)
        return self._read(size, time.monotonic() + _BODY_TIMEOUT)

    def _reserve(self, size: int) -> None:
        """Count bytes that are about to be in memory, or refuse the request while there are too many."""
        if not self.memory.take(size):
            raise _Refusal(503, "try again later: too many exports are being read")
        self._reserved += size

    def _read(self, size: int, deadline: float) -> bytes:
        pieces: list[bytes] = []
        while size:
            piece = self.rfile.read1(min(size, _PIECE))
            if not piece:
                raise _Refusal(400, "the body ends too early")
            if time.monotonic() > deadline:
                raise _Refusal(408, f"the body took longer than {_BODY_TIMEOUT:g} s")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _chunked(self) -> bytes:
        self._reserve(self.most)
        deadline = time.monotonic() + _BODY_TIMEOUT
        body = bytearray()
        while True:
            line = self.rfile.readline(_LONGEST_LINE)
            try:
                size = int(line.partition(b";")[0].strip(), 16)
            except ValueError:
                raise _Refusal(400, "a chunk of the body has no size") from None
            if size < 0 or len(body) + size > self.most:
                raise _Refusal(413, f"the export has more than {self.most} bytes; send less at once")
            body += self._read(size, deadline)
            if self.rfile.readline(_LONGEST_LINE).strip() or not line.endswith(b"\n"):
                raise _Refusal(400, "a chunk of the body has another size than it says")
            if not size:
                return bytes(body)

    def _answer(self, status: int, media: str, text: str = "", *, close: bool = False) -> None:
        """Answer as OTLP does: an empty response, or a status with a message, in the encoding of the request."""
        if media == PROTOBUF:
            message = text.encode()
            body = b"\x12" + _varint(len(message)) + message if message else b""
        else:
            media, body = JSON, msgspec.json.encode({"message": text} if text else {})
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        if status in (429, 503):
            self.send_header("Retry-After", str(_RETRY_AFTER))
        if close:
            self.send_header("Connection", "close")  # what is left of the body is not the next request
            self.close_connection = self._is_refused = True
        self.end_headers()
        self.wfile.write(body)

    def finish(self) -> None:
        """End the connection. What a refused client still sends is read: reset, it would not see the answer."""
        super().finish()
        if not self._is_refused:
            return
        deadline = time.monotonic() + _PARTING
        with suppress(OSError):  # it may have gone
            self.connection.shutdown(socket.SHUT_WR)
            while (left := deadline - time.monotonic()) > 0:
                self.connection.settimeout(left)
                if not self.connection.recv(_PIECE):
                    return

    def log_message(self, *_args: Any) -> None:
        """Log nothing: a line for each export is no news."""


def _check_body(media: str, body: bytes) -> None:
    if problem := _CHECKS[media](body):
        raise _Refusal(400, f"the body is not what its content-type says: {problem}")


def _check_json(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        return str(error)[:200]
    return "" if isinstance(found, dict) else "an export is an object"


def _check_protobuf(body: bytes) -> str:
    """Return what is wrong with the outermost message: fields 1 with a length, and nothing else that is known."""
    at = 0
    while at < len(body):
        tag, at = _read_varint(body, at)
        size, at = _read_varint(body, at)
        if tag & 7 != 2 or tag >> 3 == 0 or at < 0 or at + size > len(body):
            return "not an export in protobuf"
        at += size
    return ""


_CHECKS: Final[dict[str, Check]] = {JSON: _check_json, PROTOBUF: _check_protobuf}


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    """Return a number and the place behind it; -1 where it is cut off or too long."""
    found = 0
    for shift in range(0, 63, 7):
        if not 0 <= at < len(body):
            return 0, -1
        byte = body[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
    return 0, -1
