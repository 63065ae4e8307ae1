"""Gateways that pass MCP on and ask before they do: Envoy's ext_authz over HTTP, and Docker's interceptors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stream_guard.judge.arguments import parse_json
from stream_guard.mcp_wire.judge import McpCall, McpJudge, McpRuling, SessionKey, SessionKeys, call_of
from stream_guard.mcp_wire.messages import BadMessageError, check_headers, error, read_message, write_message
from stream_guard.serve.access import Identity, identity_of, requires
from stream_guard.serve.bodies import RequestRefused, read_body
from stream_guard.serve.this_gate import Ask, ThisGate
from stream_guard.settings import ApiSettings

EXT_AUTHZ: Final = "/v1/ext_authz"
DOCKER_MCP: Final = "/v1/docker_mcp"
_WITHOUT_CALL: Final = ("GET", "HEAD", "DELETE", "OPTIONS")
_METHODS: Final = ["GET", "POST", "DELETE", "OPTIONS", "HEAD", "PUT", "PATCH"]
_logger = logging.getLogger(__name__)


class Gateways:
    """Answers gateways in their own words. None of them can change a call: what would pass is said in the refusal."""

    def __init__(self, asked_by: Callable[[Identity], Ask], settings: ApiSettings) -> None:
        self._asked_by, self._most, self._budget = asked_by, settings.max_body_bytes, settings.budget
        self._keys = SessionKeys(settings.session_by)

    def routes(self) -> list[Route]:
        """Return where gateways ask."""
        return [
            Route(EXT_AUTHZ, self.ext_authz, methods=_METHODS),
            Route(EXT_AUTHZ + "/{path:path}", self.ext_authz, methods=_METHODS),
            Route(DOCKER_MCP + "/before", self.docker_before, methods=["POST"]),
            Route(DOCKER_MCP + "/after", self.docker_after, methods=["POST"]),
        ]

    @requires("agent")
    async def ext_authz(self, request: Request) -> Response:
        """Answer 200 where a request may go on, and 403 with the reason where it may not."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await read_body(request, self._most)
        check = self._judge(request).check
        why = await asyncio.to_thread(authorize, check, self._keys, request.method, headers, body)
        return Response(why, 403, media_type="application/json") if why else Response(status_code=200)

    @requires("agent")
    async def docker_before(self, request: Request) -> Response:
        """Answer nothing where a call may run, and a result that refuses it where it may not.

        The gateway looks at no status: whatever fails has to be such a result.
        """
        try:
            params = _params_of(parse_json(await read_body(request, self._most)))
            call = call_of({"id": 0, "params": params}, self._docker_session(request, params))
            why = (await asyncio.to_thread(self._judge(request).check, call)).refusal
        except (BadMessageError, RequestRefused, ValueError, RecursionError) as refused:
            why = f"Not run: stream_guard could not read this call: {refused}"
        except Exception:
            _logger.exception("a call was refused because the gate failed")
            why = "Not run: stream_guard failed"
        return _docker_answer(why)

    @requires("agent")
    async def docker_after(self, request: Request) -> Response:
        """Answer nothing where a result may be shown, and another result where it may not."""
        try:
            result = parse_json(await read_body(request, self._most))
            session = self._docker_session(request, result if isinstance(result, dict) else {})
            why = await asyncio.to_thread(self._judge(request).read, session, "tools/call", result)
        except (RequestRefused, ValueError, RecursionError) as refused:
            why = f"Withheld: stream_guard could not read this result: {refused}"
        except Exception:
            _logger.exception("a result was withheld because the gate failed")
            why = "Withheld: stream_guard failed"
        return _docker_answer(why)

    def _judge(self, request: Request) -> McpJudge:
        ask = self._asked_by(identity_of(request))
        return McpJudge(ThisGate(ask, asyncio.get_running_loop(), self._budget), can_modify=False)

    def _docker_session(self, request: Request, params: dict[str, Any]) -> SessionKey:
        """Return the session that the address names: the gateway sends none, and no headers."""
        named = request.query_params.get("session", "")
        return SessionKey(named, "address") if named else self._keys.find(params, {})


def authorize(
    check: Callable[[McpCall], McpRuling],
    keys: SessionKeys,
    method: str,
    headers: Mapping[str, str],
    body: bytes,
) -> bytes:
    """Return why a request that a gateway holds must not go on, as an error of JSON-RPC; nothing where it may."""
    if method in _WITHOUT_CALL:
        return b""  # of MCP: a stream of the server, or the end of a session
    if headers.get("x-envoy-auth-partial-body", "").lower() == "true":
        return _refused(None, "the gateway cut the body; raise max_request_bytes, and set allow_partial_message: false")
    if not body:
        return _refused(None, "the gateway sent no body; set with_request_body")
    try:
        message = read_message(body)
        if "method" in message:
            check_headers(message, headers)
        if message.get("method") != "tools/call":
            return b""
        call = call_of(message, keys.find(message.get("params") or {}, headers))
    except BadMessageError as refused:
        return _refused(refused.id, str(refused))
    why = check(call).refusal
    return _refused(message.get("id"), why) if why else b""


def _refused(request_id: Any, why: str) -> bytes:
    return write_message(error(request_id, why))


def _params_of(data: Any) -> dict[str, Any]:
    """Return the parameters of a call: the program writes ``Params``, its documents ``params``."""
    found = [value for key, value in data.items() if key.lower() == "params"] if isinstance(data, dict) else []
    if len(found) != 1 or not isinstance(found[0], dict):
        raise BadMessageError(-32602, "send one object with Params")
    params: dict[str, Any] = read_message(write_message({"id": 0, "method": "tools/call", "params": found[0]}))[
        "params"
    ]
    return params


def _docker_answer(why: str) -> Response:
    if not why:
        return Response(status_code=200)
    result = {"content": [{"type": "text", "text": why}], "isError": True}
    return Response(write_message(result), 200, media_type="application/json")
