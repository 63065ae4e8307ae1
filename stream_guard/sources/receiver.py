"""An OTLP/HTTP receiver: traces and logs, as protobuf or JSON, plain or in gzip. It answers when they are durable."""

from __future__ import annotations

import asyncio
import hmac
import zlib
from contextlib import suppress
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from stream_guard.http.server import ConnectionLimits, ServerThread, listen, make_config
from stream_guard.storage.spool import Spool, SpoolFull, SpoolRefusal

_LIMITS: Final = ConnectionLimits(max_connections=128, header_timeout=30.0, body_timeout=60.0)
_IDLE: Final = 30  # seconds between two requests
_RETRY_AFTER: Final = 5  # seconds
_PARTING: Final = 2.0  # seconds in which a client that was refused may go on sending
_IN_FLIGHT: Final = 256 << 20  # bytes of requests that are being read, unpacked ones at their largest


class _Refusal(Exception):  # noqa: N818  (becomes an answer)
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class OtlpReceiver:
    """Listens for exports and adds each to a spool. A request is answered with 200 when it is durable.

    What cannot be taken now is answered with 429 or 503 and ``Retry-After``: exporters try again. What can never be
    taken is answered with 400, 413 or 415. With a token, every request must carry it.
    """

    @staticmethod
    def content_type(sort: int) -> str:
        """Return the content type of a sort of export in the spool; nothing for one that is unknown."""
        return _CONTENT_TYPES.get(sort, "")

    def __init__(
        self, host: str, port: int, spool: Spool, *, most: int, token: str = "", in_flight: int = _IN_FLIGHT
    ) -> None:
        self._spool, self._most, self._token = spool, most, token.encode()
        self._free = in_flight  # bytes that requests may still take; only the server's thread counts
        routes = [Route("/{path:path}", self._export, methods=["POST"])]
        opened, self.url = listen(host, port)
        self.port = int(opened.getsockname()[1])
        self._thread = ServerThread(make_config(Starlette(routes=routes), _LIMITS, grace=1, idle=_IDLE), opened, "otlp")

    def close(self) -> None:
        """Stop listening. Requests that are being read are cut off: they were not answered."""
        self._thread.close(at_once=True)

    async def _export(self, request: Request) -> Response:
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        body = bytearray()
        unpacked = 0
        try:
            sort, packed = self._check_head(request, media)
            self._check_length(request)
            await self._read(request, body)
            if packed:
                self._reserve(self._most)
                unpacked = self._most
            await run_in_threadpool(self._keep, bytes(body), media, sort, packed)
        except _Refusal as refusal:
            return _RefusalResponse(refusal.status, media, str(refusal))
        except SpoolRefusal as refusal:
            status = 429 if isinstance(refusal, SpoolFull) else 503
            return _RefusalResponse(status, media, f"try again later: {refusal}")
        finally:
            self._free += len(body) + unpacked
        shown, answer = write_answer(media)
        return Response(answer, media_type=shown)

    def _check_head(self, request: Request, media: str) -> tuple[int, bool]:
        """Return the sort of the export, and whether it is packed; or refuse it by its head."""
        given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        if self._token and not hmac.compare_digest(given.encode(), self._token):
            raise _Refusal(401, "send the token of the receiver: Authorization: Bearer ...")
        path = request.url.path.rstrip("/")
        if path not in PATHS:
            raise _Refusal(404, f"there is no {path[:100]!r}; exports go to {' and '.join(PATHS)}")
        if media not in (PROTOBUF, JSON):
            raise _Refusal(415, f"send {PROTOBUF} or {JSON}")
        packing = request.headers.get("content-encoding", "").strip().lower()
        if packing not in ("gzip", "identity", ""):
            raise _Refusal(415, "send gzip, or nothing that packs")
        return SORTS[path, media], packing == "gzip"

    def _check_length(self, request: Request) -> None:
        """Refuse a request that says that it is too large, or nothing of its size."""
        if "content-length" not in request.headers and "transfer-encoding" not in request.headers:
            raise _Refusal(411, "send a Content-Length, or chunks")
        if int(request.headers.get("content-length", 0)) > self._most:
            raise self._too_large()

    def _reserve(self, size: int) -> None:
        """Count bytes that are about to be in memory, or refuse the request while there are too many.

        They count when they come: who only says how many will come takes no room from others.
        """
        if size > self._free:
            raise _Refusal(503, "try again later: too many exports are being read")
        self._free -= size

    async def _read(self, request: Request, body: bytearray) -> None:
        try:
            async with asyncio.timeout(_LIMITS.body_timeout):
                async for piece in request.stream():
                    self._reserve(len(piece))
                    body += piece
                    if len(body) > self._most:
                        raise self._too_large()
        except TimeoutError:
            raise _Refusal(408, f"the body took longer than {_LIMITS.body_timeout:g} s") from None
        except ClientDisconnect:
            raise _Refusal(400, "the body ends too early") from None

    def _keep(self, body: bytes, media: str, sort: int, packed: bool) -> None:
        """Add an export to the spool; in a thread, because it waits for the disk."""
        export = self._unpack(body) if packed else body
        if problem := problem_of(media, export):
            raise _Refusal(400, f"the body is not what its content-type says: {problem}")
        self._spool.add(export, sort)

    def _unpack(self, raw: bytes) -> bytes:
        unpacker = zlib.decompressobj(wbits=31)
        try:
            body = unpacker.decompress(raw, self._most + 1)
        except zlib.error as error:
            raise _Refusal(400, f"the body is not gzip: {error}") from None
        if len(body) > self._most:
            raise _Refusal(413, f"the export has more than {self._most} bytes when it is unpacked; send less at once")
        if not unpacker.eof:
            raise _Refusal(400, "the gzip body ends too early")
        return body

    def _too_large(self) -> _Refusal:
        return _Refusal(413, f"the export has more than {self._most} bytes; send less at once")


class _RefusalResponse(Response):
    """Answers, and reads what the client still sends: with its connection reset, it would not see the answer."""

    def __init__(self, status: int, media: str, text: str) -> None:
        shown, body = write_answer(media, text)
        headers = {"Retry-After": str(_RETRY_AFTER)} if status in (429, 503) else {}
        super().__init__(body, status, headers | {"Connection": "close"}, shown)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer whole, and end it when the client has sent its body, or has had time to."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(_PARTING):
                while (await receive()).get("more_body"):
                    pass
        await send({"type": "http.response.body"})
        del scope


# OTLP exports over HTTP: their addresses and encodings, what is wrong with a body, and how a receiver answers.


PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
# What a request brought, as the spool keeps it.
SORTS: Final = {("/v1/traces", PROTOBUF): 1, ("/v1/logs", PROTOBUF): 2, ("/v1/traces", JSON): 3, ("/v1/logs", JSON): 4}
_CONTENT_TYPES: Final = {sort: media for (_, media), sort in SORTS.items()}
PATHS: Final = tuple(dict.fromkeys(path for path, _ in SORTS))


def problem_of(media: str, body: bytes) -> str:
    """Return what is wrong with a body, or an empty text."""
    return _json_problem(body) if media == JSON else _protobuf_problem(body)


def write_answer(media: str, text: str = "") -> tuple[str, bytes]:
    """Return an empty response, or a status with a message, in the encoding of the request: as OTLP answers."""
    if media != PROTOBUF:
        return JSON, msgspec.json.encode({"message": text} if text else {})
    message = text.encode()
    return PROTOBUF, b"\x12" + _varint(len(message)) + message if message else b""


def _json_problem(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        return str(error)[:200]
    return "" if isinstance(found, dict) else "an export is an object"


def _protobuf_problem(body: bytes) -> str:
    """Look at the outermost message: fields 1 with a length, and nothing else that is known."""
    at = 0
    while at < len(body):
        tag, at = _read_varint(body, at)
        size, at = _read_varint(body, at)
        if tag & 7 != 2 or tag >> 3 == 0 or at < 0 or at + size > len(body):
            return "not an export in protobuf"
        at += size
    return ""


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
