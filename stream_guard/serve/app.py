"""The routes: each reads a request, runs the work in the gate's thread, and answers with JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from stream_guard.errors import StoreError
from stream_guard.guard.gate import Gate, Ruling
from stream_guard.history import incidents
from stream_guard.history.records import AnswerRefusedError
from stream_guard.model import Alert, Event
from stream_guard.ports import Decoder
from stream_guard.serve.access import Access
from stream_guard.serve.bodies import AnswerBody, Approval, RequestRefused, read_json, to_attempt, to_events, to_form
from stream_guard.serve.openapi import describe
from stream_guard.serve.service import Service

_REVIEWS = frozenset(("open", "approved", "rejected", "expired", "used", "void", "acknowledged"))
_INCIDENTS = frozenset(("unresolved", "solved"))
_MOST = 1000


def make_app(service: Service, decoder: Decoder, token: str = "") -> Starlette:
    """Return the application; without a token only requests to this machine's own names are answered."""
    routes = Routes(service, decoder)
    description = describe(token=bool(token))

    async def show_description(_request: Request) -> Response:
        return _json(description)

    return Starlette(
        routes=[
            Route("/v1/check", routes.check, methods=["POST"]),
            Route("/v1/events", routes.events, methods=["POST"]),
            Route("/v1/reviews", routes.reviews),
            Route("/v1/reviews/{id}", routes.review),
            Route("/v1/reviews/{id}/approve", routes.approve, methods=["POST"]),
            Route("/v1/reviews/{id}/reject", routes.reject, methods=["POST"]),
            Route("/v1/reviews/{id}/acknowledge", routes.acknowledge, methods=["POST"]),
            Route("/v1/incidents", routes.incidents),
            Route("/v1/incidents/{id}", routes.incident),
            Route("/v1/incidents/{id}/solve", routes.solve, methods=["POST"]),
            Route("/openapi.json", show_description),
            Route("/metrics", routes.metrics),
            Route("/healthz", _alive),
        ],
        middleware=[Middleware(Access, token=token)],
        exception_handlers={RequestRefused: _refuse, HTTPException: _no_route, StoreError: _no_history},
    )


class Routes:
    """The handlers of the routes."""

    def __init__(self, service: Service, decoder: Decoder) -> None:
        self._service = service
        self._gate: Gate = service.gate
        self._decoder = decoder

    async def check(self, request: Request) -> Response:
        """Decide on a tool call."""
        attempt = to_attempt(await self._body(request), self._decoder)
        ruling, judged = await self._service.check(attempt)
        return _json(show_ruling(ruling, judged=judged))

    async def events(self, request: Request) -> Response:
        """Judge recorded events."""
        events, refused = to_events(await self._body(request), self._decoder)
        alerts = await self._service.run(self._observe, events)
        self._service.alert(alerts)
        return _json({"accepted": len(events), "alerts": alerts, "refused": refused})

    async def reviews(self, request: Request) -> Response:
        """List reviews."""
        status, limit = _query(request, _REVIEWS)
        return _json({"reviews": await self._service.run(self._gate.reviews.listing, status, limit)})

    async def review(self, request: Request) -> Response:
        """Show a review."""
        found = await self._service.run(self._gate.reviews.get, request.path_params["id"])
        return _json(_require(found, "review"))

    async def approve(self, request: Request) -> Response:
        """Let an attempt through."""
        body = to_form(await self._body(request), Approval)
        work = partial(
            self._gate.reviews.approve,
            request.path_params["id"],
            by=body.by,
            note=body.note,
            arguments_digest=body.arguments_digest,
        )
        return await _answered(self._service.run(work))

    async def reject(self, request: Request) -> Response:
        """Refuse an attempt."""
        return await self._answer(request, self._gate.reviews.reject)

    async def acknowledge(self, request: Request) -> Response:
        """Record that an alert was seen."""
        return await self._answer(request, self._gate.reviews.acknowledge)

    async def incidents(self, request: Request) -> Response:
        """List incidents."""
        status, limit = _query(request, _INCIDENTS)
        return _json({"incidents": await self._service.run(incidents.listing, self._gate.database, status, limit)})

    async def incident(self, request: Request) -> Response:
        """Show an incident and its timeline."""
        name = request.path_params["id"]
        found = _require(await self._service.run(incidents.get, self._gate.database, name), "incident")
        timeline = await self._service.run(incidents.timeline, self._gate.database, name)
        return _json({"incident": found, "timeline": timeline})

    async def solve(self, request: Request) -> Response:
        """Mark an incident as solved."""
        return await self._answer(request, partial(incidents.solve, self._gate.database, time=time.time()))

    async def metrics(self, request: Request) -> Response:
        """Show the metrics."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._service.registry), media_type=content_type)

    def _observe(self, events: Sequence[Event]) -> list[Alert]:
        return [alert for event in events for alert in self._gate.observe(event)]

    async def _answer(self, request: Request, work: Callable[..., Any]) -> Response:
        body = to_form(await self._body(request), AnswerBody)
        return await _answered(self._service.run(partial(work, request.path_params["id"], by=body.by, note=body.note)))

    async def _body(self, request: Request) -> Any:
        return await read_json(request, self._service.settings.max_body_bytes)


def show_ruling(ruling: Ruling, *, judged: bool) -> dict[str, Any]:
    """Return a ruling as JSON for the caller."""
    return {
        "action": ruling.action.word,
        "reason": ruling.reason,
        "policy_version": ruling.policy_version,
        "judged": judged,
        "alerts": ruling.alerts,
        "review": ruling.review,
    }


async def _alive(_request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _answered(work: Awaitable[Any]) -> Response:
    try:
        return _json(await work)
    except AnswerRefusedError as error:
        return _json({"error": str(error)}, 404 if error.missing else 409)


def _query(request: Request, states: frozenset[str]) -> tuple[str | None, int]:
    status, limit = request.query_params.get("status"), request.query_params.get("limit", "100")
    if status is not None and status not in states:
        raise RequestRefused(422, f"status is one of {', '.join(sorted(states))}")
    if not (limit.isascii() and limit.isdecimal() and len(limit) < 10 and 1 <= int(limit) <= _MOST):
        raise RequestRefused(422, f"limit is a number from 1 to {_MOST}")
    return status, int(limit)


def _require(found: Any, noun: str) -> Any:
    if found is None:
        raise RequestRefused(404, f"there is no {noun} of that id")
    return found


def _refuse(_request: Request, refusal: Exception) -> Response:
    return _json({"error": str(refusal)}, getattr(refusal, "status", 400))


def _no_route(_request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 400)
    text = {404: "there is no such address; see /openapi.json", 405: "this address takes another method"}
    return _json({"error": text.get(status, str(error))}, status, getattr(error, "headers", None))


def _no_history(_request: Request, error: Exception) -> Response:
    """The history is unavailable: the caller may try again."""
    return _json({"error": str(error)}, 503)


def _json(value: Any, status: int = 200, headers: Any = None) -> Response:
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a surrogate pair: valid JSON when it is escaped
        body = json.dumps(msgspec.to_builtins(value)).encode()
    return Response(body, status, headers, "application/json")
