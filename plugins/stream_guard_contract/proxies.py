"""Everything that speaks HTTP: the proxies before tools and models, and the thread they run in."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from threading import Thread
from typing import Any, Final, TypeVar

import httpx
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from stream_guard import Json, SettingsError, parse_json
from stream_guard_contract.completions import (
    Completion,
    distort_completion,
    error_body,
    read_completion,
    read_stream,
    write_completion,
    write_stream,
)
from stream_guard_contract.faults import (
    REPLACES_CALL,
    TOOL_PAYLOAD,
    ErrorReply,
    TriggeredModelFault,
    TriggeredToolFault,
    distort,
    into_answer,
    llm_delay,
    malform,
    tool_delay,
    tool_error_reply,
)
from stream_guard_contract.recording import FaultId
from stream_guard_contract.scenario_run import ActiveRun, OpenModelCall, OpenToolCall, ScenarioRun

# The HTTP client for tools, models and agents: a request ends in a reply of bounded size or an UpstreamError.

MAX_BODY: Final = 8 * 2**20  # bytes of a request or an answer; more is refused
# Between two bytes, not in total: the agent decides how long an answer may take, and hangs up.
_PATIENCE: Final = httpx.Timeout(300.0, connect=10.0)

# RFC 9110, 7.6.1: these belong to one connection. From "host" on: they would not fit a body that was read or changed.
_NOT_FORWARDED: Final = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "host",
        "content-length",
        "content-encoding",
        "accept-encoding",
        "date",
        "server",
    )
)


class Reply(msgspec.Struct):
    """A response: the status, the headers to forward, and the whole body."""

    status: int
    headers: dict[str, str]
    body: bytes


class UpstreamError(Exception):
    """No usable reply came; the text says why."""


def open_client(addresses: Iterable[str]) -> httpx.AsyncClient:
    """Return a client that uses no proxy of the environment and follows no redirect."""
    limits = httpx.Limits(max_keepalive_connections=20)
    # Loading the CA certificates takes longer than a short run; without them no TLS connection is trusted.
    is_plain = all(address.startswith("http://") for address in addresses)
    verify: ssl.SSLContext | bool = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True
    return httpx.AsyncClient(timeout=_PATIENCE, trust_env=False, follow_redirects=False, limits=limits, verify=verify)


def forwarded_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers that are forwarded to the other side."""
    return {name: value for name, value in headers if name.lower() not in _NOT_FORWARDED}


async def ask(client: httpx.AsyncClient, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
    """Return the reply, or raise UpstreamError."""
    try:
        sent = {**headers, "accept-encoding": "identity"}
        request = client.build_request(method, url, headers=sent, content=body)
        async with aclosing(await _send(client, request)) as response:
            received = bytearray()
            async for chunk in response.aiter_bytes():
                received += chunk
                if len(received) > MAX_BODY:
                    raise UpstreamError(f"the answer is longer than {MAX_BODY} bytes")
            return Reply(response.status_code, forwarded_headers(response.headers.items()), bytes(received))
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise UpstreamError(f"{type(error).__name__}: {error}") from None


async def _send(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """Return the response as soon as it begins. What changes nothing is sent again when its connection was closed."""
    try:
        return await client.send(request, stream=True)
    except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
        # The tool may close a connection that was kept just when it is used again.
        if request.method not in ("GET", "HEAD"):
            raise
    return await client.send(request, stream=True)


# The tool proxy: it forwards an agent's HTTP calls to its tools, with the faults of the running scenario.
#
# ``/tools/NAME/...`` stands for the address given with ``--tool NAME=ADDRESS``. Other names are answered with 404.

TOOL_PREFIX: Final = "/tools"
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class ToolProxy:
    """The proxy between an agent and its tools."""

    def __init__(self, addresses: Mapping[str, str], active: ActiveRun, client: httpx.AsyncClient) -> None:
        self._addresses = addresses
        self._active = active
        self._client = client

    async def handle(self, request: Request) -> Response:
        """Answer one call of a tool, with the fault it meets if there is one."""
        name = request.path_params["name"]
        address = self._addresses.get(name)
        rest = _rest(request)
        if address is None:
            known = ", ".join(sorted(self._addresses)) or "none"
            return _refuse_tool(404, f"no address was given for this tool; there are: {known}")
        if ".." in request.path_params.get("rest", "").split("/"):
            return _refuse_tool(400, "a path must not lead out of the tool's own address")
        try:
            body = await read_body(request)
        except ValueError as error:
            return _refuse_tool(413, str(error))
        except ClientDisconnect:
            return Response(status_code=400)
        query = f"?{request.url.query}" if request.url.query else ""
        url = f"{address}{rest}{query}"
        run = self._active.run
        if run is None:
            return await self._forward(request, url, body)
        call = run.begin_tool_call(name, _arguments(request, rest, body), url)
        return await self._answer(run, call, request, url, body)

    async def _answer(self, run: ScenarioRun, call: OpenToolCall, request: Request, url: str, body: bytes) -> Response:
        triggered = call.triggered
        if triggered is not None:
            await asyncio.sleep(tool_delay(triggered.fault))
            if triggered.fault.mode in REPLACES_CALL:
                return _replace_call(run, call, triggered)
        met = [triggered.fault_id] if triggered is not None and triggered.fault.mode == "slow" else []
        try:
            reply = await ask(self._client, request.method, url, forwarded_headers(request.headers.items()), body)
        except UpstreamError as error:
            run.end_tool_call(call, str(error), met, failed=True)
            return _refuse_tool(502, f"the tool behind the proxy failed: {error}")
        if reply.status >= 400:
            run.end_tool_call(call, {"status": reply.status, "body": _readable(reply.body)}, met, failed=True)
            return Response(reply.body, reply.status, reply.headers)
        met += _apply_faults(call, reply)
        run.end_tool_call(call, _readable(reply.body), met)
        return Response(reply.body, reply.status, reply.headers)

    async def _forward(self, request: Request, url: str, body: bytes) -> Response:
        try:
            reply = await ask(self._client, request.method, url, forwarded_headers(request.headers.items()), body)
        except UpstreamError as error:
            return _refuse_tool(502, f"the tool behind the proxy failed: {error}")
        return Response(reply.body, reply.status, reply.headers)


async def read_body(request: Request) -> bytes:
    """Return the body of a request; ValueError where it is longer than MAX_BODY."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise ValueError(f"the request has more than {MAX_BODY} bytes")
    return bytes(body)


def _replace_call(run: ScenarioRun, call: OpenToolCall, triggered: TriggeredToolFault) -> Response:
    """Return the response of a fault that replaces the call."""
    met, fault = triggered
    if fault.mode == "malicious_response":
        payload = (fault.payload or TOOL_PAYLOAD).encode("utf-8", "replace")
        run.end_tool_call(call, _readable(payload), [met])
        return Response(payload, media_type="text/plain" if _parse(payload) is None else "application/json")
    status, text = tool_error_reply(fault)
    run.end_tool_call(call, {"status": status, "body": text}, [met], failed=True)
    return _refuse_tool(status, text)


def _apply_faults(call: OpenToolCall, reply: Reply) -> list[FaultId]:
    """Change the reply by the call's fault and attacks, and return those that changed it."""
    met = []
    if call.triggered is not None and call.triggered.fault.mode == "malformed":
        reply.body = malform(reply.body.decode("utf-8", "replace")).encode("utf-8", "replace")
        met.append(call.triggered.fault_id)
    for injected in call.injected:
        changed = into_answer(_readable(reply.body), injected.text, injected.strategy)
        text = changed if isinstance(changed, str) else json.dumps(changed)
        reply.body = text.encode("utf-8", "replace")
        met.append(injected.fault_id)
    return met


def _arguments(request: Request, rest: str, body: bytes) -> dict[str, Json]:
    """Return the arguments of the call: the query and the object in the body, or the body as text."""
    args: dict[str, Json] = dict(request.query_params)
    if rest.strip("/"):
        args["path"] = rest.strip("/")
    sent = _parse(body)
    if isinstance(sent, dict):
        args |= sent
    elif body:
        args["body"] = sent if sent is not None else body.decode("utf-8", "replace")
    return args


def _rest(request: Request) -> str:
    """Return the path after the tool's name as it was sent: unquoting and quoting again would change it."""
    raw = request.scope.get("raw_path") or request.url.path.encode()
    parts = raw.decode("latin-1").split("/", 3)
    return f"/{parts[3]}" if len(parts) > 3 else ""


def _readable(body: bytes) -> Json:
    value = _parse(body)
    return value if value is not None else body.decode("utf-8", "replace")


def _parse(body: bytes) -> Json:
    try:
        return parse_json(body, strict_keys=False)
    except (ValueError, RecursionError):
        return None


def _refuse_tool(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status)


# The model proxy: OpenAI chat completions, whole or streamed, with the faults of the running scenario.
#
# ``/v1/...`` stands for the address given with ``--llm``. Requests that are no chat completion are forwarded unchanged.

MODEL_PREFIX: Final = "/v1"
_CHAT: Final = "/chat/completions"
_EVENTS: Final = "text/event-stream"


class ChatCall(msgspec.Struct):
    """One request for a completion while it is answered."""

    run: ScenarioRun
    call: OpenModelCall
    headers: dict[str, str]
    url: str

    @property
    def streamed(self) -> bool:
        """Whether the agent wants the answer as a stream."""
        return self.call.request.get("stream") is True

    @property
    def body(self) -> bytes:
        """The body of the request to the model."""
        return json.dumps(self.call.request).encode()

    def end(self, completion: Completion | str, met: Sequence[FaultId] = ()) -> None:
        """Record what the agent got; a text is the reason why there is no completion."""
        self.run.end_model_call(self.call, completion, met)


class LlmProxy:
    """The proxy between an agent and its model."""

    def __init__(self, address: str, active: ActiveRun, client: httpx.AsyncClient) -> None:
        self._address = address
        self._active = active
        self._client = client

    async def handle(self, request: Request) -> Response:
        """Answer one request to the model's interface."""
        try:
            body = await read_body(request)
        except ValueError as error:
            return _refuse_model(ErrorReply(413, str(error)))
        except ClientDisconnect:
            return Response(status_code=400)
        path = request.url.path.removeprefix(MODEL_PREFIX)
        query = f"?{request.url.query}" if request.url.query else ""
        url = f"{self._address}{path}{query}"
        headers = forwarded_headers(request.headers.items())
        run = self._active.run
        chat_request = _chat_request(body) if run is not None and request.method == "POST" and path == _CHAT else None
        if run is None or chat_request is None:
            return await self._stream(request.method, url, headers, body, None)
        chat = ChatCall(run, run.begin_model_call(chat_request), headers, url)
        if chat.call.triggered is None:
            return await self._stream("POST", url, headers, chat.body, chat)
        return await self._answer_with_fault(chat, chat.call.triggered)

    async def _answer_with_fault(self, chat: ChatCall, triggered: TriggeredModelFault) -> Response:
        """Answer as the fault changes the completion; the completion is read whole first, streamed or not."""
        await asyncio.sleep(llm_delay(triggered.fault))
        instead = distort("", triggered.fault)
        if isinstance(instead, ErrorReply):
            chat.end(instead.body, [triggered.fault_id])
            return _refuse_model(instead)
        try:
            reply = await ask(self._client, "POST", chat.url, chat.headers, chat.body)
        except UpstreamError as error:
            return _failed(chat, error)
        completion = _read(chat, reply.status, reply.body)
        if isinstance(completion, str):
            chat.end(completion)
            return Response(reply.body, reply.status, reply.headers)
        changed = distort_completion(completion, triggered.fault)
        if isinstance(changed, ErrorReply):  # handled above, before the model was called
            return _refuse_model(changed)
        chat.end(changed, [triggered.fault_id] if changed != completion else [])
        if chat.streamed:
            return StreamingResponse(_each(list(write_stream(changed))), media_type=_EVENTS)
        return Response(write_completion(changed), media_type="application/json")

    async def _stream(
        self, method: str, url: str, headers: dict[str, str], body: bytes, chat: ChatCall | None
    ) -> Response:
        """Forward the answer chunk by chunk."""
        request = self._client.build_request(
            method, url, headers={**headers, "accept-encoding": "identity"}, content=body
        )
        try:
            response = await self._client.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return _failed(chat, UpstreamError(f"{type(error).__name__}: {error}"))
        pieces = _pieces(response, chat)
        return StreamingResponse(pieces, response.status_code, forwarded_headers(response.headers.items()))


async def _pieces(response: httpx.Response, chat: ChatCall | None) -> AsyncIterator[bytes]:
    """Yield the chunks; the turn is recorded before the last one, so the agent cannot act before its record."""
    kept = bytearray()
    held = b""
    broken = ""
    try:
        async for chunk in response.aiter_bytes():
            kept += chunk[: max(0, MAX_BODY - len(kept))]
            if held:
                yield held
            held = chunk
    except (httpx.HTTPError, OSError) as error:
        broken = f"the answer broke off: {type(error).__name__}"
    finally:
        await response.aclose()
        if chat is not None:
            chat.end(broken or _read(chat, response.status_code, bytes(kept)))
    if held:
        yield held


def _read(chat: ChatCall, status: int, body: bytes) -> Completion | str:
    if status >= 400:
        return f"HTTP status {status}"
    completion = read_stream(body) if chat.streamed else read_completion(body)
    return completion if completion is not None else "the answer is no completion"


def _chat_request(body: bytes) -> dict[str, Json] | None:
    """Return the request for a completion; None where the body is none, which the model itself refuses."""
    request = _parse(body)
    return request if isinstance(request, dict) and isinstance(request.get("messages"), list) else None


async def _each(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def _failed(chat: ChatCall | None, error: UpstreamError) -> Response:
    if chat is not None:
        chat.end(str(error))
    return _refuse_model(ErrorReply(502, f"the model behind the proxy failed: {error}"))


def _refuse_model(reply: ErrorReply) -> Response:
    headers = {"retry-after": "0"} if reply.status == 429 else None
    return Response(error_body(reply), reply.status, headers, "application/json")


# A thread with its own event loop for all HTTP: requests to agents, and the proxies before tools and model.

T = TypeVar("T")

HOST: Final = "127.0.0.1"
_BACKLOG: Final = 512


class HttpThread:
    """Runs coroutines for blocking callers, and serves the proxies."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name="contract-http", daemon=True)
        self._thread.start()
        self._server: uvicorn.Server | None = None
        self._serving: Future[None] | None = None
        self._client: httpx.AsyncClient | None = None

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the coroutine returns, or raise what it raises."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def open_proxies(self, active: ActiveRun, tools: Mapping[str, str], model: str, port: int = 0) -> str:
        """Start the proxies on a loopback port, 0 for any; return their address."""
        opened, url = _listen(port)
        self._client = open_client([*tools.values(), *([model] if model else [])])
        routes = [
            Route(f"{TOOL_PREFIX}/{{name}}{rest}", handle, methods=list(METHODS))
            for handle in [ToolProxy(tools, active, self._client).handle]
            for rest in ("", "/{rest:path}")
        ]
        if model:
            handle = LlmProxy(model, active, self._client).handle
            routes.append(Route(f"{MODEL_PREFIX}/{{rest:path}}", handle, methods=list(METHODS)))
        config = uvicorn.Config(Starlette(routes=routes), log_config=None, access_log=False, lifespan="off")
        self._server = uvicorn.Server(config)
        self._serving = asyncio.run_coroutine_threadsafe(self._server.serve(sockets=[opened]), self._loop)
        return url

    def close(self) -> None:
        """Stop the proxies and the thread; later requests are refused."""
        if self._server is not None and self._serving is not None:
            # No grace period: no agent waits for an answer any more, and a fault may sleep for minutes.
            self._server.should_exit = self._server.force_exit = True
            self._serving.result()
        if self._client is not None:
            self.call(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))


def _listen(port: int) -> tuple[socket.socket, str]:
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((HOST, port))
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise SettingsError(
            f"the proxies cannot listen on port {port}: {error.strerror or error}; name another with --proxy-port"
        ) from None
    return opened, f"http://{HOST}:{opened.getsockname()[1]}"
