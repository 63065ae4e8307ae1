"""The proxy over streamable HTTP: one address, behind which is the server's."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from stream_guard.errors import SettingsError
from stream_guard.http.server import listen
from stream_guard.mcp_wire.messages import error, write_message
from stream_guard.mcp_wire.relay import Passed, Relay, Shown
from stream_guard.serve.access import is_loopback
from stream_guard.serve.admission import Admission
from stream_guard.serve.assembly import serve
from stream_guard.serve.bodies import RequestRefused, read_body
from stream_guard.settings import ApiSettings

PATH: Final = "/mcp"
# Of one connection, not of the message; and what the client of httpx sets itself.
_NOT_PASSED: Final = frozenset(
    (
        *("host", "content-length", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
        *("expect", "accept-encoding", "proxy-authorization", "proxy-authenticate", "origin", "cookie"),
        "x-stream-guard-token",
    )
)
_SHOWN: Final = ("mcp-session-id", "mcp-protocol-version", "www-authenticate", "retry-after", "cache-control", "allow")
_OF_CLIENT: Final = ("authorization", "mcp-session-id", "mcp-protocol-version")  # by which a server knows it
_JSON: Final = "application/json"
_STREAM: Final = "text/event-stream"


class HttpRelay:
    """Answers a client in place of its server."""

    def __init__(self, upstream: str, relay: Relay, client: httpx.AsyncClient, most: int) -> None:
        self._upstream, self._relay, self._client, self._most = upstream, relay, client, most

    async def answer(self, request: Request) -> Response:
        """Pass a request on, or refuse it."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        _check_origin(headers)
        # Ids of requests are unique in a session of the protocol. Where it has none, in one request over HTTP.
        session = headers.get("mcp-session-id", "")
        scope = f"session:{session}" if session else uuid4().hex
        if request.method != "POST":
            return await self._ask_server(request, headers, scope, Passed())
        body = await read_body(request, self._most)
        passed = await asyncio.to_thread(self._relay.from_client, body, scope, headers)
        if passed.forward:
            return await self._ask_server(request, headers, scope, passed)
        return _json(passed.answer, 400 if passed.is_bad else 200)

    async def _ask_server(self, request: Request, headers: Mapping[str, str], scope: str, passed: Passed) -> Response:
        try:
            answer = await self._send(request.method, headers, passed.forward)
        except httpx.HTTPError as failure:
            await self._give_up(scope, passed, "the server cannot be reached")
            return _json(write_message(error(None, f"the server cannot be reached: {type(failure).__name__}")), 502)
        shown = {name: answer.headers[name] for name in _SHOWN if name in answer.headers}
        media = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media == _STREAM:
            stream = self._judged_stream(answer, headers, scope, passed)
            left = BackgroundTask(answer.aclose)
            return StreamingResponse(stream, answer.status_code, shown, media_type=_STREAM, background=left)
        try:
            return await self._judged_body(answer, media, shown, scope)
        finally:
            await answer.aclose()
            await self._give_up(scope, passed, f"the server answered with {answer.status_code}")

    async def _judged_body(self, answer: httpx.Response, media: str, shown: dict[str, str], scope: str) -> Response:
        content = bytearray()
        try:
            async for part in answer.aiter_bytes():
                content += part
                if len(content) > self._most:
                    text = f"the server's answer has more than {self._most} bytes"
                    return _json(write_message(error(None, text)), 502)
        except httpx.HTTPError as failure:
            return _json(write_message(error(None, f"the server's answer broke off: {type(failure).__name__}")), 502)
        is_message = content and media == _JSON
        judged = b""
        if is_message:
            judged = (await asyncio.to_thread(self._relay.from_server, bytes(content), scope)).forward
        # What is no answer to the request is not shown: its status says enough.
        return _json(judged, answer.status_code, shown) if judged else Response(b"", answer.status_code, shown)

    async def _judged_stream(
        self, answer: httpx.Response, headers: Mapping[str, str], scope: str, passed: Passed
    ) -> AsyncIterator[bytes]:
        stream = EventStream()
        try:
            async for part in answer.aiter_bytes():
                for event in stream.feed(part):
                    shown = Shown()
                    if event.data:
                        shown = await asyncio.to_thread(self._relay.from_server, event.data, scope, headers)
                    if shown.answer:
                        await self._answer_server(headers, shown.answer)
                    if shown.forward or event.fields:
                        yield event.written(shown.forward)
                if stream.size > self._most:
                    return
        except httpx.HTTPError:
            return  # the client sees that the stream ends, and may take it up again
        finally:
            await answer.aclose()
            if not scope.startswith("session:"):
                await self._give_up(scope, passed, "the server's answer broke off")

    async def _send(self, method: str, headers: Mapping[str, str], body: bytes) -> httpx.Response:
        sent = {name: value for name, value in headers.items() if name not in _NOT_PASSED}
        sent["accept-encoding"] = "identity"
        asked = self._client.build_request(method, self._upstream, headers=sent, content=body or None)
        return await self._client.send(asked, stream=True)

    async def _answer_server(self, headers: Mapping[str, str], body: bytes) -> None:
        """Answer a request of the server in place of its client, who does not see it."""
        own = {name: headers[name] for name in _OF_CLIENT if name in headers}
        own |= {"content-type": _JSON, "accept": f"{_JSON}, {_STREAM}"}
        await (await self._send("POST", own, body)).aclose()

    async def _give_up(self, scope: str, passed: Passed, why: str) -> None:
        """Tell the gate that a request will not be answered, unless it was. In a session, others wait meanwhile."""
        if passed.id is not None:
            await asyncio.to_thread(self._relay.give_up, scope, why, passed.id)


def make_proxy(relay: HttpRelay, settings: ApiSettings) -> Starlette:
    """Return the application of a proxy, with the limits of the API."""
    return Starlette(
        routes=[Route(PATH, relay.answer, methods=["POST", "GET", "DELETE"])],
        middleware=[Middleware(Admission, settings=settings, refused=Counter[str]())],
        exception_handlers={RequestRefused: _refuse},
    )


def _refuse(_request: Request, refusal: Exception) -> Response:
    status, headers = getattr(refusal, "status", 400), getattr(refusal, "headers", None)
    return _json(write_message(error(None, str(refusal))), status, headers)


def _check_origin(headers: Mapping[str, str]) -> None:
    """Refuse what a page in a local browser may send: the proxy is for programs on this machine."""
    for name, place in (("host", f"//{headers.get('host', '')}"), ("origin", headers.get("origin", ""))):
        if place and not is_loopback(urlsplit(place).hostname or ""):
            raise RequestRefused(403, f"the {name} of the request is not this machine; ask for 127.0.0.1 or localhost")


def _json(body: bytes, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, status, dict(headers or {}), _JSON)


_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_KEPT: Final = (b"id", b"event", b"retry")


class SentEvent(NamedTuple):
    """One event: its data, and its other fields as lines."""

    data: bytes
    fields: tuple[bytes, ...]

    def written(self, data: bytes) -> bytes:
        """Return the event with other data, which has no line end; without data, only its fields."""
        return b"\n".join([*self.fields, *([b"data: " + data] if data else []), b"", b""])


class EventStream:
    """Takes a stream apart, however it is cut into pieces."""

    def __init__(self) -> None:
        self._held = b""
        self._data: list[bytes] = []
        self._fields: list[bytes] = []
        self._began = False

    @property
    def size(self) -> int:
        """Bytes that wait for the rest of their event."""
        return len(self._held) + sum(map(len, self._data)) + sum(map(len, self._fields))

    def feed(self, part: bytes) -> list[SentEvent]:
        """Return the events that a further piece completes."""
        self._held += part
        if not self._began:
            if len(self._held) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(self._held):
                return []
            self._held, self._began = self._held.removeprefix(_BYTE_ORDER_MARK), True
        # A carriage return at the end may be half of a line end.
        last = len(self._held) - self._held.endswith(b"\r")
        *lines, rest = _LINE_END.split(self._held[:last])
        self._held = rest + self._held[last:]
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: bytes) -> SentEvent | None:
        if not line:
            event = SentEvent(b"\n".join(self._data), tuple(self._fields))
            self._data, self._fields = [], []
            return event if event.data or event.fields else None
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name in _KEPT:
            self._fields.append(name + b": " + value)
        return None


_HOST: Final = "127.0.0.1"
_CONNECT: Final = 10.0  # seconds; an answer may take as long as a tool takes


def run_http(upstream: str, port: int, relay: Relay, settings: ApiSettings, say: Callable[[str], None]) -> None:
    """Answer clients on this machine until the process is told to stop."""
    address = urlsplit(upstream)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise SettingsError(f"--upstream {upstream}: write http://HOST:PORT/PATH or https://...")
    try:
        opened, url = listen(_HOST, port)
    except OSError as error:
        raise SettingsError(f"cannot listen on {_HOST} port {port}: {error.strerror}; take another --port") from None
    client = httpx.AsyncClient(timeout=httpx.Timeout(None, connect=_CONNECT), follow_redirects=False, trust_env=False)
    with opened:
        app = make_proxy(HttpRelay(upstream, relay, client, settings.max_body_bytes), settings)
        serve(app, opened, lambda: say(f"listening at {url}{PATH}"), settings)
