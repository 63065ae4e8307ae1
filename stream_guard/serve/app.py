"""The routes: each reads a request, runs the work in the gate's thread, and answers with JSON."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from threading import Thread
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
from stream_guard.http.traceparent import LABEL
from stream_guard.judge.model import Action, Alert, Event, Json
from stream_guard.policy.message_parts import did_you_mean, show
from stream_guard.ports import Decoder
from stream_guard.serve.access import Access, Door, Identity, LocalDoor, TokenDoor, identity_of, requires, stamp
from stream_guard.serve.acs import Guardian, read_secrets
from stream_guard.serve.admission import Admission
from stream_guard.serve.bodies import (
    AnswerBody,
    Approval,
    RequestRefused,
    read_json,
    take_flag,
    to_attempt,
    to_ending,
    to_event,
    to_form,
    to_items,
    with_trace,
)
from stream_guard.serve.gateways import Gateways
from stream_guard.serve.hook_answers import HOOK_QUERY, HeldCounts, answer_hook, read_options, to_object, to_process
from stream_guard.serve.openapi import describe
from stream_guard.serve.service import EVENTS_AT_ONCE, Service
from stream_guard.serve.this_gate import Ask, ThisGate

_REVIEWS = frozenset(("open", "approved", "rejected", "expired", "used", "void", "acknowledged"))
_INCIDENTS = frozenset(("unresolved", "solved"))
_MOST = 1000


def make_app(service: Service, decoder: Decoder, door: Door | None = None) -> Starlette:
    """Return the application; without a door only requests to this machine's own names are answered."""
    routes = Routes(service, decoder)
    gateways = Gateways(routes.asked_by, service.settings)
    secrets = read_secrets(service.settings.acs_secret_file)
    guardian = Guardian(routes.asked_by, service.settings, service.gate, secrets)
    door = door or LocalDoor()
    description = describe(token=not isinstance(door, LocalDoor), roles=isinstance(door, TokenDoor))

    async def show_description(_request: Request) -> Response:
        return _json(description)

    async def is_ready(_request: Request) -> Response:
        waiting = "".join(f"{what} waits; see the log\n" for what in sorted(service.obstacles))
        return PlainTextResponse(waiting or "ok\n", 503 if waiting else 200)

    return Starlette(
        routes=[
            Route("/v1/check", routes.check, methods=["POST"]),
            Route("/v1/events", routes.events, methods=["POST"]),
            Route("/v1/obligations", routes.obligations, methods=["POST"]),
            Route("/v1/hooks/{agent}", routes.hook, methods=["POST"]),
            *gateways.routes(),
            *(guardian.routes() if secrets else ()),
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
            Route("/readyz", is_ready),
        ],
        middleware=[
            Middleware(Access, door=door),
            Middleware(Admission, settings=service.settings, refused=service.refused),
        ],
        exception_handlers={RequestRefused: _refuse, HTTPException: _no_route, StoreError: _no_history},
    )


class Routes:
    """The handlers of the routes."""

    def __init__(self, service: Service, decoder: Decoder) -> None:
        self._service = service
        self._gate: Gate = service.gate
        self._decoder = decoder
        self._one_batch = asyncio.Lock()
        self._held: defaultdict[str, HeldCounts] = defaultdict(HeldCounts)  # by tenant

    @requires("agent")
    async def check(self, request: Request) -> Response:
        """Decide on a tool call."""
        body = with_trace(await self._body(request), request.headers.get(LABEL))
        return _json(await self._check(body, identity_of(request)))

    @requires("agent")
    async def events(self, request: Request) -> Response:
        """Judge recorded events."""
        return _json(await self._tell(await self._body(request), identity_of(request)))

    @requires("agent")
    async def obligations(self, request: Request) -> Response:
        """Say what rules would find if the session ended now."""
        return _json(await self._owed(await self._body(request), identity_of(request)))

    @requires("agent")
    async def hook(self, request: Request) -> Response:
        """Answer a hook of a coding agent, in that agent's own words."""
        who = identity_of(request)
        body, options = await self._body(request, HOOK_QUERY), read_options(request.query_params)
        ask, agent = self.asked_by(who), request.path_params["agent"]
        answer = await answer_hook(agent, body, ask, options, self._held[who.tenant])
        if not options.process:
            return _json(to_object(answer))
        text, headers = to_process(answer)
        return Response(text, headers=headers, media_type="text/plain")

    def asked_by(self, who: Identity) -> Ask:
        """Return the way to ask in the words of the API, without HTTP, as a caller who is known."""
        ways = {"/v1/check": self._check, "/v1/events": self._tell, "/v1/obligations": self._owed}

        async def ask(path: str, body: dict[str, Any]) -> dict[str, Any]:
            return await ways[path](body, who)

        return ask

    async def _check(self, data: Json, who: Identity) -> dict[str, Any]:
        data, may_modify = take_flag(data, "may_modify")
        data, may_defer = take_flag(data, "may_defer")
        attempt = stamp(to_attempt(data, self._decoder), who, self._gate.policy.agents)
        ruling, judged = await self._service.check(attempt, may_modify=may_modify, may_defer=may_defer)
        return show_ruling(ruling, judged=judged)

    async def _tell(self, data: Json, who: Identity) -> dict[str, Any]:
        items = to_items(data)
        alerts: list[Alert] = []
        refused: list[dict[str, Any]] = []
        # One batch after the other, so that events stay in order; a few at a time, so that checks need not wait.
        async with self._one_batch:
            for start in range(0, len(items), EVENTS_AT_ONCE):
                events = self._read(items[start : start + EVENTS_AT_ONCE], start, who, refused)
                found = await self._service.run(self._gate.observe, *events)
                alerts += found
        action = self._gate.action_of(alerts).word
        return {"accepted": len(items) - len(refused), "alerts": alerts, "action": action, "refused": refused}

    async def _owed(self, data: Json, who: Identity) -> dict[str, Any]:
        ending = stamp(to_ending(data, self._decoder), who, self._gate.policy.agents)
        return await self._service.run(self._obligations, ending.session_id)

    @requires("reviewer", "operator")
    async def reviews(self, request: Request) -> Response:
        """List reviews."""
        status, limit = _query(request, _REVIEWS)
        tenant = identity_of(request).tenant
        return _json({"reviews": await self._service.run(self._gate.reviews.listing, status, limit, tenant)})

    @requires("reviewer", "operator")
    async def review(self, request: Request) -> Response:
        """Show a review."""
        _refuse_unknown(request, ())
        name, tenant = request.path_params["id"], identity_of(request).tenant
        found = await self._service.run(self._gate.reviews.get, name, tenant)
        return _json(_require(found, "review"))

    @requires("reviewer")
    async def approve(self, request: Request) -> Response:
        """Let an attempt through."""
        body = to_form(await self._body(request), Approval)
        work = partial(self._gate.reviews.approve, arguments_digest=body.arguments_digest)
        return await self._answer(request, work, body)

    @requires("reviewer")
    async def reject(self, request: Request) -> Response:
        """Refuse an attempt."""
        return await self._answer(request, self._gate.reviews.reject, to_form(await self._body(request), AnswerBody))

    @requires("reviewer", "operator")
    async def acknowledge(self, request: Request) -> Response:
        """Record that an alert was seen."""
        body = to_form(await self._body(request), AnswerBody)
        return await self._answer(request, self._gate.reviews.acknowledge, body)

    @requires("reviewer", "operator")
    async def incidents(self, request: Request) -> Response:
        """List incidents."""
        status, limit = _query(request, _INCIDENTS)
        tenant = identity_of(request).tenant
        listed = await self._service.run(incidents.listing, self._gate.database, status, limit, tenant)
        return _json({"incidents": listed})

    @requires("reviewer", "operator")
    async def incident(self, request: Request) -> Response:
        """Show an incident and its timeline."""
        _refuse_unknown(request, ())
        name, tenant = request.path_params["id"], identity_of(request).tenant
        found = _require(await self._service.run(incidents.get, self._gate.database, name, tenant), "incident")
        timeline = await self._service.run(incidents.timeline, self._gate.database, name)
        return _json({"incident": found, "timeline": timeline})

    @requires("reviewer", "operator")
    async def solve(self, request: Request) -> Response:
        """Mark an incident as solved."""
        work = partial(incidents.solve, self._gate.database, time=time.time())
        return await self._answer(request, work, to_form(await self._body(request), AnswerBody))

    @requires("operator", whole_server=True)
    async def metrics(self, request: Request) -> Response:
        """Show the metrics."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._service.registry), media_type=content_type)

    def _read(self, items: list[Any], first: int, who: Identity, refused: list[dict[str, Any]]) -> list[Event]:
        """Return the events of some items; those that cannot be read are added to ``refused``."""
        events: list[Event] = []
        for number, item in enumerate(items, first):
            try:
                events.append(stamp(to_event(item, self._decoder), who, self._gate.policy.agents))
            except RequestRefused as refusal:
                refused.append({"number": number, "reason": str(refusal)})
        return events

    def _obligations(self, session_id: str) -> dict[str, Any]:
        found = self._gate.open_obligations(session_id)
        return {"obligations": found, "policy_version": self._gate.policy.version}

    async def _answer(self, request: Request, work: Callable[..., Any], body: AnswerBody) -> Response:
        """Answer a review or an incident as who the caller is."""
        who = identity_of(request)
        known = partial(work, by=_answerer(who, body.by), note=body.note, tenant=who.tenant, via=who.via)
        return await _answered(self._service.run(known, request.path_params["id"]))

    async def _body(self, request: Request, query: Sequence[str] = ()) -> Any:
        _refuse_unknown(request, query)
        return await read_json(request, self._service.settings.max_body_bytes)


class OwnGate:
    """A gate in this process, with the time budget that a served one has."""

    def __init__(self, service: Service, decoder: Decoder) -> None:
        self._loop, self._budget = asyncio.new_event_loop(), service.settings.budget
        self._routes = Routes(service, decoder)
        self._thread = Thread(target=self._loop.run_forever, name="stream_guard-own-gate", daemon=True)
        self._thread.start()

    def asked_by(self, who: Identity) -> ThisGate:
        """Return the gate for a caller who is known."""
        return ThisGate(self._routes.asked_by(who), self._loop, self._budget)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request of this process; GateError when there is none."""
        return self.asked_by(Identity()).post(path, body)

    def close(self) -> None:
        """Answer nothing more."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def show_ruling(ruling: Ruling, *, judged: bool) -> dict[str, Any]:
    """Return a ruling as JSON for the caller."""
    return {
        "action": ruling.action.word,
        "reason": ruling.reason,
        "advice": ruling.advice,
        "policy_version": ruling.policy_version,
        "judged": judged and ruling.judged,
        "checked": judged and ruling.checked,
        "rules": ruling.rules,
        "alerts": ruling.alerts,
        "review": ruling.review,
        **({"args": ruling.args, "modified_by": ruling.modified_by} if ruling.action is Action.MODIFY else {}),
    }


def _answerer(who: Identity, stated: str) -> str:
    """Return the name under which a caller answers: the token's, or their word where there is none."""
    if who.name and stated not in ("", who.name):
        raise RequestRefused(403, f"this is the token of {who.name!r}; leave out by, or answer with your own token")
    if not who.name and not stated:
        raise RequestRefused(422, "say who answers: by")
    return who.name or stated


async def _alive(_request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _answered(work: Awaitable[Any]) -> Response:
    try:
        return _json(await work)
    except AnswerRefusedError as error:
        return _json({"error": str(error)}, 404 if error.missing else 409)


def _query(request: Request, states: frozenset[str]) -> tuple[str | None, int]:
    _refuse_unknown(request, ("status", "limit"))
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
    return _json({"error": str(refusal)}, getattr(refusal, "status", 400), getattr(refusal, "headers", None))


def _no_route(_request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 400)
    text = {404: "there is no such address; see /openapi.json", 405: "this address takes another method"}
    return _json({"error": text.get(status, str(error))}, status, getattr(error, "headers", None))


def _no_history(_request: Request, error: Exception) -> Response:
    """The history is unavailable: the caller may try again."""
    return _json({"error": str(error)}, 503, {"Retry-After": "1"})


def _json(value: Any, status: int = 200, headers: Any = None) -> Response:
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a surrogate pair: valid JSON when it is escaped
        body = json.dumps(msgspec.to_builtins(value)).encode()
    return Response(body, status, headers, "application/json")


def _refuse_unknown(request: Request, known: Sequence[str]) -> None:
    """Refuse a query that would be answered as if a part of it had not been asked."""
    for name in request.query_params:
        if name not in known:
            advice = f"it takes {' and '.join(known)}" if known else "this address takes none"
            raise RequestRefused(422, f"unknown query parameter {show(name)}{did_you_mean(name, known)}; {advice}")
