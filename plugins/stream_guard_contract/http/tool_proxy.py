"""The tool proxy: it forwards an agent's HTTP calls to its tools, with the faults of the running scenario.

``/tools/NAME/...`` stands for the address given with ``--tool NAME=ADDRESS``. Other names are answered with 404.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Final

import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from stream_guard import Json, parse_json
from stream_guard_contract.faults.attacks import into_answer
from stream_guard_contract.faults.effects import REPLACES_CALL, TOOL_PAYLOAD, malform, tool_delay, tool_error_reply
from stream_guard_contract.faults.fault_plan import TriggeredToolFault
from stream_guard_contract.http.upstream import MAX_BODY, Reply, UpstreamError, ask, forwarded_headers
from stream_guard_contract.recording.labels import FaultId
from stream_guard_contract.scenario.scenario_run import ActiveRun, OpenToolCall, ScenarioRun

PREFIX: Final = "/tools"
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
            return _refuse(502, f"the tool behind the proxy failed: {error}")
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
            return _refuse(502, f"the tool behind the proxy failed: {error}")
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
    return _refuse(status, text)


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


def _refuse(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status)
