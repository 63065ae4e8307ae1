"""The model proxy: OpenAI chat completions, whole or streamed, with the faults of the running scenario.

``/v1/...`` stands for the address given with ``--llm``. Requests that are no chat completion are forwarded unchanged.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

import httpx
import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from stream_guard import Json, parse_json
from stream_guard_contract.faults.effects import ErrorReply, distort, llm_delay
from stream_guard_contract.faults.fault_plan import TriggeredModelFault
from stream_guard_contract.http.tool_proxy import read_body
from stream_guard_contract.http.upstream import MAX_BODY, UpstreamError, ask, forwarded_headers
from stream_guard_contract.recording.labels import FaultId
from stream_guard_contract.scenario.completions import (
    Completion,
    distort_completion,
    error_body,
    read_completion,
    read_stream,
    write_completion,
    write_stream,
)
from stream_guard_contract.scenario.scenario_run import ActiveRun, OpenModelCall, ScenarioRun

PREFIX: Final = "/v1"
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
            return _refuse(ErrorReply(413, str(error)))
        except ClientDisconnect:
            return Response(status_code=400)
        path = request.url.path.removeprefix(PREFIX)
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
            return _refuse(instead)
        try:
            reply = await ask(self._client, "POST", chat.url, chat.headers, chat.body)
        except UpstreamError as error:
            return _failed(chat, error)
        completion = read_stream(reply.body) if chat.streamed else read_completion(reply.body)
        if reply.status >= 400 or completion is None:
            chat.end(f"HTTP status {reply.status}" if reply.status >= 400 else "the answer is no completion")
            return Response(reply.body, reply.status, reply.headers)
        changed = distort_completion(completion, triggered.fault)
        if isinstance(changed, ErrorReply):  # handled above, before the model was called
            return _refuse(changed)
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
    try:
        request = parse_json(body, strict_keys=False)
    except (ValueError, RecursionError):
        return None
    return request if isinstance(request, dict) and isinstance(request.get("messages"), list) else None


async def _each(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def _failed(chat: ChatCall | None, error: UpstreamError) -> Response:
    if chat is not None:
        chat.end(str(error))
    return _refuse(ErrorReply(502, f"the model behind the proxy failed: {error}"))


def _refuse(reply: ErrorReply) -> Response:
    headers = {"retry-after": "0"} if reply.status == 429 else None
    return Response(error_body(reply), reply.status, headers, "application/json")
