"""The model proxy: it speaks OpenAI's chat completions, whole or streamed, and answers as the scenario leaves it.

``/v1/...`` stands for the address that was given. What is no chat completion is passed on as it is.
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

from stream_guard.language.arguments import parse_json
from stream_guard.model import Json
from stream_guard_contract.completions import (
    Said,
    distort_said,
    error_body,
    read_completion,
    read_stream,
    write_completion,
    write_stream,
)
from stream_guard_contract.faults import Refused, distort, llm_delay
from stream_guard_contract.labels import FaultMet
from stream_guard_contract.scene import Asked, Scene
from stream_guard_contract.stage import Stage
from stream_guard_contract.storm import ModelHit
from stream_guard_contract.tool_proxy import read_body
from stream_guard_contract.upstream import MAX_BODY, UpstreamError, ask, passed_on

PREFIX: Final = "/v1"
_CHAT: Final = "/chat/completions"
_EVENTS: Final = "text/event-stream"


class Chat(msgspec.Struct):
    """One request for a completion, while it is answered."""

    scene: Scene
    asked: Asked
    headers: dict[str, str]
    url: str

    @property
    def streamed(self) -> bool:
        """Whether the agent wants the answer as a stream."""
        return self.asked.request.get("stream") is True

    @property
    def body(self) -> bytes:
        """What the model is asked."""
        return json.dumps(self.asked.request).encode()

    def end(self, said: Said | str, met: Sequence[FaultMet] = ()) -> None:
        """Write down what the agent got."""
        self.scene.end_model(self.asked, said, met)


class LlmProxy:
    """Stands between an agent and its model."""

    def __init__(self, address: str, stage: Stage, client: httpx.AsyncClient) -> None:
        self._address = address
        self._stage = stage
        self._client = client

    async def handle(self, request: Request) -> Response:
        """Answer one request to the model's interface."""
        try:
            body = await read_body(request)
        except ValueError as error:
            return _refuse(Refused(413, str(error)))
        except ClientDisconnect:
            return Response(status_code=400)
        path = request.url.path.removeprefix(PREFIX)
        query = f"?{request.url.query}" if request.url.query else ""
        url = f"{self._address}{path}{query}"
        headers = passed_on(request.headers.items())
        scene = self._stage.scene
        asked = _request(body) if scene is not None and request.method == "POST" and path == _CHAT else None
        if scene is None or asked is None:
            return await self._stream(request.method, url, headers, body, None)
        chat = Chat(scene, scene.begin_model(asked), headers, url)
        if chat.asked.hit is None:
            return await self._stream("POST", url, headers, chat.body, chat)
        return await self._meet(chat, chat.asked.hit)

    async def _meet(self, chat: Chat, hit: ModelHit) -> Response:
        """Answer with what the fault leaves of the answer; it is read whole first, streamed or not."""
        await asyncio.sleep(llm_delay(hit.fault))
        refused = distort("", hit.fault)
        if isinstance(refused, Refused):
            chat.end(refused.body, [hit.met])
            return _refuse(refused)
        try:
            reply = await ask(self._client, "POST", chat.url, chat.headers, chat.body)
        except UpstreamError as error:
            return _failed(chat, error)
        said = read_stream(reply.body) if chat.streamed else read_completion(reply.body)
        if reply.status >= 400 or said is None:
            chat.end(f"HTTP status {reply.status}" if reply.status >= 400 else "the answer is no completion")
            return Response(reply.body, reply.status, reply.headers)
        changed = distort_said(said, hit.fault)
        if isinstance(changed, Refused):  # refused above, before the model was asked
            return _refuse(changed)
        chat.end(changed, [hit.met] if changed != said else [])
        if chat.streamed:
            return StreamingResponse(_each(list(write_stream(changed))), media_type=_EVENTS)
        return Response(write_completion(changed), media_type="application/json")

    async def _stream(self, method: str, url: str, headers: dict[str, str], body: bytes, chat: Chat | None) -> Response:
        """Pass the answer on, piece by piece as it comes."""
        request = self._client.build_request(
            method, url, headers={**headers, "accept-encoding": "identity"}, content=body
        )
        try:
            response = await self._client.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return _failed(chat, UpstreamError(f"{type(error).__name__}: {error}"))
        pieces = _pieces(response, chat)
        return StreamingResponse(pieces, response.status_code, passed_on(response.headers.items()))


async def _pieces(response: httpx.Response, chat: Chat | None) -> AsyncIterator[bytes]:
    """Yield the answer; the last piece goes out after the turn is written down, so that no agent is quicker."""
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


def _read(chat: Chat, status: int, body: bytes) -> Said | str:
    if status >= 400:
        return f"HTTP status {status}"
    said = read_stream(body) if chat.streamed else read_completion(body)
    return said if said is not None else "the answer is no completion"


def _request(body: bytes) -> dict[str, Json] | None:
    """Return a request for a completion; None when it is none, which is the model's to refuse."""
    try:
        asked = parse_json(body, strict_keys=False)
    except (ValueError, RecursionError):
        return None
    return asked if isinstance(asked, dict) and isinstance(asked.get("messages"), list) else None


async def _each(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def _failed(chat: Chat | None, error: UpstreamError) -> Response:
    if chat is not None:
        chat.end(str(error))
    return _refuse(Refused(502, f"the model behind the proxy failed: {error}"))


def _refuse(refused: Refused) -> Response:
    headers = {"retry-after": "0"} if refused.status == 429 else None
    return Response(error_body(refused), refused.status, headers, "application/json")
