"""The page as an application: its views, its static files, and what every answer has in common."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from stream_guard.errors import StoreError
from stream_guard.guard.reviews import Reviews
from stream_guard.history.database import Database, open_database
from stream_guard.history.kept_events import EventKeeper
from stream_guard.history.records import AnswerRefusedError
from stream_guard.http.server import ServerThread, make_config
from stream_guard.judge.counts import Counts
from stream_guard.judge.spec import Policy
from stream_guard.page.alerts_view import AlertViews, IncidentViews
from stream_guard.page.live import LiveAlerts
from stream_guard.page.parts import HEADERS, STATIC, PageParts, PageTools, SeriesReader, Templates, version_of
from stream_guard.page.policy_view import PolicyViews, ReportViews
from stream_guard.page.reviews_view import ReviewViews
from stream_guard.page.rules_view import JudgeViews, LearnedViews, RuleViews
from stream_guard.page.sessions_view import SessionViews
from stream_guard.page.sign_in import (
    COOKIE,
    Forms,
    PageAccess,
    first_of,
    identify,
    local_target,
    read_fields,
    remember,
    who,
)
from stream_guard.running.assembly import Assembly
from stream_guard.serve.access import Door, Identity, LocalDoor, open_door
from stream_guard.serve.admission import Admission
from stream_guard.serve.assembly import Ready, limits_of, open_socket
from stream_guard.serve.bodies import RequestRefused
from stream_guard.worker.rollouts import ListedRollout

# What belongs to the page; everything else belongs to the API beside it.
PATHS: Final = (
    "/alerts", "/sessions", "/reviews", "/incidents", "/rules", "/learned", "/judge", "/activity", "/reports", "/policy"
)  # fmt: skip
_OWN: Final = ("/sign-in", "/sign-out", "/static")
_BADGES: Final = 3.0  # seconds for which the numbers in the menu stand


def is_page(path: str) -> bool:
    """Whether an address belongs to the page."""
    return path == "/" or any(path == own or path.startswith(f"{own}/") for own in (*PATHS, *_OWN))


def make_page(parts: PageParts) -> tuple[Starlette, LiveAlerts]:
    """Return the page, and what keeps it live."""
    forms, live = Forms(), LiveAlerts(parts.database)
    named = not isinstance(parts.door, LocalDoor)
    templates = Templates(forms, Badges(parts.database), named=named)
    tools = PageTools(parts, forms, templates, live, SeriesReader(parts.database))
    kinds = (
        AlertViews, SessionViews, ReviewViews, IncidentViews, RuleViews, LearnedViews, JudgeViews, ReportViews,
        PolicyViews,
    )  # fmt: skip
    views = [kind(tools) for kind in kinds]
    entrance = Entrance(parts.door, tools)
    app = Starlette(
        routes=[
            Route("/sign-in", entrance.show),
            Route("/sign-in", entrance.enter, methods=["POST"]),
            Route("/sign-out", entrance.leave, methods=["POST"]),
            Mount("/static", _Static(directory=STATIC)),
            *(route for view in views for route in view.routes()),
        ],
        # Bodies have to come in time, also those of people who are not known yet.
        middleware=[
            Middleware(Admission, settings=parts.settings.api, refused=Counter()),
            Middleware(PageAccess, door=parts.door),
            Middleware(RolesOfPage),
        ],
        exception_handlers={
            RequestRefused: _explain(tools),
            HTTPException: _explain(tools),
            StoreError: _explain(tools),
        },
    )
    return app, live


class RolesOfPage:
    """Lets in whoever may see reviews and incidents over the API: reviewers and operators, not agents."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        identity = scope.get("stream_guard_page_identity")
        if isinstance(identity, Identity) and not identity.roles & {"reviewer", "operator"}:
            text = "This page takes the token of a reviewer or an operator; this is an agent's."
            await Response(text, 403, HEADERS, "text/plain")(scope, receive, send)
            return
        await self._app(scope, receive, send)


class Entrance:
    """Where people with a token sign in and out."""

    def __init__(self, door: Door, tools: PageTools) -> None:
        self._door = door
        self._tools = tools

    async def show(self, request: Request) -> Response:
        """Show the form."""
        found = identify(self._door, request)
        wanted = local_target(request.query_params.get("next", "/"))
        if isinstance(found, Identity):
            return RedirectResponse(wanted, 303)
        return self._tools.templates.bare("sign_in.html", wanted=wanted, problem="")

    async def enter(self, request: Request) -> Response:
        """Take a token, and keep it in a cookie where it is good."""
        fields = await read_fields(request)
        token, wanted = first_of(fields, "token").strip(), local_target(first_of(fields, "next"))
        good = token.isascii() and token.isprintable() and len(token) < 500
        host = request.headers.get("host", "").encode("latin-1")
        found = self._door.identify(b"Bearer " + token.encode(), host) if good else None
        if not isinstance(found, Identity):
            problem = "This token is not known here."
            return self._tools.templates.bare("sign_in.html", 401, wanted=wanted, problem=problem)
        response = RedirectResponse(wanted, 303)
        remember(response, request, token)
        return response

    async def leave(self, request: Request) -> Response:
        """Forget the token."""
        await self._tools.forms.read(request)
        response = RedirectResponse("/sign-in", 303)
        response.delete_cookie(COOKIE)
        return response


class Badges:
    """The numbers beside the menu: what waits for a person. Counted now and then, not for every page."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counted: dict[str, tuple[float, dict[str, int]]] = {}

    def __call__(self, identity: Identity) -> dict[str, int]:
        """Return the numbers for somebody; none for those of one tenant, who may not know of others."""
        if identity.tenant:
            return {}
        at, known = self._counted.get("", (0.0, {}))
        if time.monotonic() - at > _BADGES or not known:
            known = {"reviews": self._waiting(), "incidents": self._unresolved()}
            self._counted[""] = (time.monotonic(), known)
        return known

    # As far as a badge counts: a full count of a large table takes time.
    def _waiting(self) -> int:
        """Return how many attempts wait, among the latest open reviews; the others hold nothing back."""
        latest = "SELECT kind FROM sg_reviews WHERE status = 'open' ORDER BY opened DESC LIMIT 5000"
        sql = f"SELECT count(*) FROM ({latest}) AS latest WHERE kind = 'anomaly_review'"  # noqa: S608  # no value is in it
        return int(self._database.read(sql)[0][0])

    def _unresolved(self) -> int:
        sql = "SELECT count(*) FROM (SELECT 1 FROM sg_incidents WHERE status = 'unresolved' LIMIT 1000) AS found"
        return int(self._database.read(sql)[0][0])


class _Static(StaticFiles):
    """Files of this package. Under an address that names their content they stay good; elsewhere they are asked for.

    Without this a browser asks for every script again with every page, and shows nothing until it has the answers.
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        named = response.status_code in (200, 304) and scope["query_string"] == f"v={version_of(path)}".encode()
        lasting = "public, max-age=31536000, immutable" if named else "no-cache"
        response.headers.update({**HEADERS, "Cache-Control": lasting})
        return response


def _explain(tools: PageTools) -> Callable[[Request, Exception], Any]:
    async def show(request: Request, error: Exception) -> Response:
        status: int = getattr(error, "status", getattr(error, "status_code", 503))
        if isinstance(error, AnswerRefusedError):
            status = 404 if error.missing else 409
        text = str(error) if not isinstance(error, HTTPException) else _TEXTS.get(status, str(error))
        headers = getattr(error, "headers", None) or {}
        if "stream_guard_page_identity" not in request.scope:
            return Response(text, status, {**HEADERS, **headers}, "text/plain")
        page = await run_in_threadpool(
            tools.templates.page, request, "error.html", status, text=text, status_code=status
        )
        page.headers.update(headers)
        return page

    return show


_TEXTS: Final = {404: "There is no such page.", 405: "This address takes another method."}

__all__ = ["PATHS", "is_page", "make_page", "who"]


# Where the page is: beside the API of ``serve``, or on a port of its own beside a run or a worker.


_GRACE: Final = 2  # seconds for open requests when the run has ended


class PageBesideApi:
    """Sends each request to the page or to the API, by its address."""

    def __init__(self, page: ASGIApp, api: ASGIApp) -> None:
        self._page = page
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        app = self._page if scope["type"] == "http" and is_page(scope["path"]) else self._api
        await app(scope, receive, send)


def mount(ready: Ready, assembly: Assembly, policy_file: Path) -> Ready:
    """Return the server with the page beside its API."""
    parts = _parts(assembly, ready.door, ready.policy, ready.counts, policy_file)
    page, _ = make_page(parts)
    return dataclasses.replace(ready, app=PageBesideApi(page, ready.app))


class PageServer:
    """The page in a thread of its own, for a process whose work is something else."""

    def __init__(
        self,
        assembly: Assembly,
        policy: Callable[[], Policy],
        counts: Counts,
        policy_file: Path | None,
        rollouts: Callable[[], Sequence[ListedRollout]] = tuple,
    ) -> None:
        settings = assembly.settings
        place = settings.api.model_copy(update={"host": settings.page.host, "port": settings.page.port})
        door = open_door(place)
        database = open_database(settings.history.url, settings.history.read_key())
        assembly.opened.callback(database.close)
        assembly.prune_history()
        self.keeper = EventKeeper(database, settings.page)
        assembly.opened.callback(self.keeper.close)
        app, self._live = make_page(
            dataclasses.replace(_parts(assembly, door, policy, counts, policy_file), rollouts=rollouts)
        )
        opened, self.url = open_socket(place)
        self.warning = door.warning
        self._thread = ServerThread(make_config(app, limits_of(place), grace=_GRACE), opened, "page")
        assembly.opened.callback(self.close)

    def close(self) -> None:
        """Stop answering, and return when the thread has ended."""
        self._live.closing = True
        self._thread.close()


def _parts(
    assembly: Assembly, door: Door, policy: Callable[[], Policy], counts: Counts, policy_file: Path | None
) -> PageParts:
    settings = assembly.settings
    database = open_database(settings.history.url, settings.history.read_key())
    assembly.opened.callback(database.close)
    return PageParts(
        database=database,
        reviews=Reviews(database, settings.reviews),
        policy=policy,
        door=door,
        settings=settings,
        registry=assembly.registry,
        counts=counts,
        policy_file=policy_file,
    )
