"""Admission: how many requests are answered at once, how large they are together, and how long they take to come.

Checks, events and everything else have a lane each: a flood in one does not fill the others. A request beyond the
limit is refused with 503 before it is read. That is never an allow.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stream_guard.serve.access import OPEN
from stream_guard.serve.bodies import RequestRefused
from stream_guard.settings import ApiSettings

_RETRY: Final = {"Retry-After": "1"}
_CLOSE: Final = {"Connection": "close"}  # the rest of the body is not waited for
_LANES: Final = {"/v1/check": "checks", "/v1/events": "events"}
_GATEWAYS: Final = ("/v1/ext_authz", "/v1/docker_mcp/", "/acs")  # they ask about calls, too
OTHERS: Final = "others"
REFUSALS: Final = ("busy", "slow")


@dataclass(slots=True)
class Lane:
    """What is in flight of one sort of request."""

    requests: int = 0
    size: int = 0


class Admission:
    """Lets requests in up to the limits of their lane; ``refused`` counts the others."""

    def __init__(self, app: ASGIApp, settings: ApiSettings, refused: Counter[str]) -> None:
        self._app = app
        self._settings = settings
        self._refused = refused
        self._lanes = {name: Lane() for name in (*_LANES.values(), OTHERS)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 503, or pass the request on with its body under watch."""
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        lane = self._lanes[_lane_of(scope["path"])]
        if lane.requests >= self._settings.max_in_flight:
            self._refused["busy"] += 1
            await JSONResponse({"error": _BUSY}, 503, headers=_RETRY | _CLOSE)(scope, receive, send)
            return
        body = _WatchedBody(receive, lane, self._settings, self._refused)
        lane.requests += 1
        try:
            await self._app(scope, body.receive, send)
        finally:
            lane.requests -= 1
            lane.size -= body.size


_BUSY: Final = "too many requests at once; try again"


def _lane_of(path: str) -> str:
    return "checks" if path.startswith(_GATEWAYS) else _LANES.get(path, OTHERS)


class _WatchedBody:
    """The body of one request: it counts against its lane, and has to come in time."""

    def __init__(self, receive: Receive, lane: Lane, settings: ApiSettings, refused: Counter[str]) -> None:
        self._receive = receive
        self._lane = lane
        self._settings = settings
        self._refused = refused
        self._deadline = asyncio.get_running_loop().time() + settings.body_timeout
        self._is_whole = False
        self.size = 0

    async def receive(self) -> Message:
        """Return the next message of the server; RequestRefused when the body is late, or one too many."""
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            self._refused["slow"] += 1
            text = f"the request was not there after {self._settings.body_timeout:g} seconds; send it faster"
            raise RequestRefused(408, text, _CLOSE) from None
        self._is_whole = not message.get("more_body", False)
        size = len(message.get("body", b""))
        self.size += size
        self._lane.size += size
        if self._lane.size > self._settings.max_in_flight_bytes:
            self._refused["busy"] += 1
            raise RequestRefused(503, _BUSY, _RETRY | _CLOSE)
        return message
