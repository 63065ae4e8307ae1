"""The tool proxy: an agent that calls its tools over HTTP calls them here, and meets what the scenario says.

``/tools/NAME/...`` stands for the address that was given for NAME. Tools without an address are not there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Final

import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from stream_guard.language.arguments import parse_json
from stream_guard.model import Json
from stream_guard_contract.attacks import into_answer
from stream_guard_contract.faults import TOOL_PAYLOAD, UNASKED, malform, tool_delay, tool_refusal
from stream_guard_contract.labels import FaultMet
from stream_guard_contract.scene import Call, Scene
from stream_guard_contract.stage import Stage
from stream_guard_contract.storm import ToolHit
from stream_guard_contract.upstream import MAX_BODY, Reply, UpstreamError, ask, passed_on

PREFIX: Final = "/tools"
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class ToolProxy:
    """Stands between an agent and its tools."""

    def __init__(self, addresses: Mapping[str, str], stage: Stage, client: httpx.AsyncClient) -> None:
        self._addresses = addresses
        self._stage = stage
        self._client = client

    async def handle(self, request: Request) -> Response:
        """Answer one call of a tool, as it is or as the scenario leaves it."""
        name = request.path_params["name"]
        address = self._addresses.get(name)
        rest = _rest(request)
        if address is None:
            known = ", ".join(sorted(self._addresses)) or "none"
            return _refuse(404, f"no address was given for this tool; there are: {known}")
        if ".." in request.path_params.get("rest", "").split("/"):
            return _refuse(400, "a path must not lead out of the tool's own address")
        try:
            body = await read_body(request)
        except ValueError as error:
            return _refuse(413, str(error))
        except ClientDisconnect:
            return Response(status_code=400)
        query = f"?{request.url.query}" if request.url.query else ""
        url = f"{address}{rest}{query}"
        scene = self._stage.scene
        if scene is None:
            return await self._pass_on(request, url, body)
        call = scene.begin_call(name, _arguments(request, rest, body), url)
        return await self._meet(scene, call, request, url, body)

    async def _meet(self, scene: Scene, call: Call, request: Request, url: str, body: bytes) -> Response:
        hit = call.hit
        if hit is not None:
            await asyncio.sleep(tool_delay(hit.fault))
            if hit.fault.mode in UNASKED:
                return _answer_instead(scene, call, hit)
        met = [hit.met] if hit is not None and hit.fault.mode == "slow" else []
        try:
            reply = await ask(self._client, request.method, url, passed_on(request.headers.items()), body)
        except UpstreamError as error:
            scene.end_call(call, str(error), met, failed=True)
            return _refuse(502, f"the tool behind the proxy failed: {error}")
        if reply.status >= 400:
            scene.end_call(call, {"status": reply.status, "body": _readable(reply.body)}, met, failed=True)
            return Response(reply.body, reply.status, reply.headers)
        met += _change(call, reply)
        scene.end_call(call, _readable(reply.body), met)
        return Response(reply.body, reply.status, reply.headers)

    async def _pass_on(self, request: Request, url: str, body: bytes) -> Response:
        try:
            reply = await ask(self._client, request.method, url, passed_on(request.headers.items()), body)
        except UpstreamError as error:
            return _refuse(502, f"the tool behind the proxy failed: {error}")
        return Response(reply.body, reply.status, reply.headers)


async def read_body(request: Request) -> bytes:
    """Return the body of a request; ValueError when it is too long."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise ValueError(f"the request has more than {MAX_BODY} bytes")
    return bytes(body)


def _answer_instead(scene: Scene, call: Call, hit: ToolHit) -> Response:
    """Answer for a tool that is not asked."""
    met, fault = hit
    if fault.mode == "malicious_response":
        payload = (fault.payload or TOOL_PAYLOAD).encode("utf-8", "replace")
        scene.end_call(call, _readable(payload), [met])
        return Response(payload, media_type="text/plain" if _parse(payload) is None else "application/json")
    status, text = tool_refusal(fault)
    scene.end_call(call, {"status": status, "body": text}, [met], failed=True)
    return _refuse(status, text)


def _change(call: Call, reply: Reply) -> list[FaultMet]:
    """Change the answer as the call's fault and attacks ask, and return which of them did."""
    met = []
    if call.hit is not None and call.hit.fault.mode == "malformed":
        reply.body = malform(reply.body.decode("utf-8", "replace")).encode("utf-8", "replace")
        met.append(call.hit.met)
    for planted in call.planted:
        changed = into_answer(_readable(reply.body), planted.text, planted.strategy)
        text = changed if isinstance(changed, str) else json.dumps(changed)
        reply.body = text.encode("utf-8", "replace")
        met.append(planted.met)
    return met


def _arguments(request: Request, rest: str, body: bytes) -> dict[str, Json]:
    """Return what the tool was called with: its query and the object in its body, or the body as text."""
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
    """Return the path behind the tool's name as it was sent: unquoting and quoting again would change it."""
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


def _refuse(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status)
