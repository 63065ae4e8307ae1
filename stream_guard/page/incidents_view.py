"""The views of incidents: what rules found, whether it is solved, and whether the rule was right."""

from __future__ import annotations

import time
from typing import Any, Final, get_args

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from stream_guard.history import incidents, kept_events, verdicts
from stream_guard.history.incidents import Incident, Status
from stream_guard.history.records import AnswerRefusedError
from stream_guard.history.verdicts import WORDS
from stream_guard.page.parts import PageTools
from stream_guard.page.reviews_view import waiting_about
from stream_guard.page.sign_in import NAME_COOKIE, answerer, first_of, local_target, who
from stream_guard.page.steps import steps_to
from stream_guard.serve.access import Identity
from stream_guard.serve.bodies import RequestRefused

_ENTRIES: Final = 200  # of a timeline that are shown, and that one verdict may be for


class IncidentViews:
    """Incidents and what people say about them."""

    def __init__(self, tools: PageTools) -> None:
        self._tools = tools
        self._database = tools.parts.database

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [
            Route("/incidents", self.listing),
            Route("/incidents/{id}", self.incident),
            Route("/incidents/{id}", self.answer, methods=["POST"]),
            Route("/alerts/{id}", self.judge, methods=["POST"]),
        ]

    def listing(self, request: Request) -> Response:
        """Show incidents, the latest first."""
        query = request.query_params
        status = query.get("status", "unresolved")
        chosen: Status | None = status if status in get_args(Status) else None  # type: ignore[assignment]
        found, following = incidents.page(
            self._database, chosen, _place(query.get("before", "")), tenant=who(request).tenant
        )
        return self._tools.templates.page(
            request,
            "incidents.html",
            incidents=found,
            status=status,
            following="" if following is None else f"{following[0]!r}~{following[1]}",
            before=query.get("before", ""),
        )

    def incident(self, request: Request) -> Response:
        """Show one incident and its timeline."""
        found = self._find(request)
        entries = incidents.timeline(self._database, found.id, _ENTRIES)
        said = {
            entry.alert_id: verdict
            for entry in entries
            if entry.alert_id and (verdict := verdicts.of_alert(self._database, entry.alert_id))
        }
        session = kept_events.find_session(self._database, found.session_id, who(request).tenant)
        event_id = next((entry.event_id for entry in reversed(entries) if entry.event_id), "")
        steps = [] if session is None else steps_to(self._database, session, event_id)
        reviews = waiting_about(self._tools, found.session_id, found.rule_id, who(request).tenant)
        shown: dict[str, Any] = {"incident": found, "entries": entries, "verdicts": said, "reviews": reviews}
        return self._tools.templates.page(request, "incident.html", **shown, steps=steps, event_id=event_id)

    async def answer(self, request: Request) -> Response:
        """Call an incident solved, or say of its findings whether they are right."""
        fields = await self._tools.forms.read(request)
        identity, found = who(request), await run_in_threadpool(self._find, request)
        by, note, answer = answerer(identity, fields), first_of(fields, "note")[:2000], first_of(fields, "answer")
        try:
            if answer == "solve":
                said = {"by": by, "note": note, "tenant": identity.tenant, "via": identity.via}
                await run_in_threadpool(incidents.solve, self._database, found.id, time=time.time(), **said)
            else:
                entries = await run_in_threadpool(incidents.timeline, self._database, found.id, _ENTRIES)
                for entry in entries:
                    if entry.alert_id:
                        await self._give(entry.alert_id, answer, by, note, identity)
        except AnswerRefusedError as error:
            raise RequestRefused(404 if error.missing else 409, str(error)) from None
        return back(f"/incidents/{found.id}", by, identity)

    async def judge(self, request: Request) -> Response:
        """Say of one finding whether it is right."""
        fields = await self._tools.forms.read(request)
        identity = who(request)
        by, note = answerer(identity, fields), first_of(fields, "note")[:2000]
        try:
            await self._give(request.path_params["id"], first_of(fields, "answer"), by, note, identity)
        except AnswerRefusedError as error:
            raise RequestRefused(404 if error.missing else 409, str(error)) from None
        return back(local_target(first_of(fields, "next") or request.url.path), by, identity)

    async def _give(self, alert_id: str, word: str, by: str, note: str, identity: Identity) -> None:
        known = next((one for one in WORDS if one == word), None)
        if known is None:
            raise RequestRefused(422, f"a verdict is {', '.join(WORDS)}")
        said = {"by": by, "note": note, "tenant": identity.tenant, "via": identity.via}
        await run_in_threadpool(verdicts.give, self._database, alert_id, known, time=time.time(), **said)

    def _find(self, request: Request) -> Incident:
        found = incidents.get(self._database, request.path_params["id"], who(request).tenant)
        if found is None:
            raise RequestRefused(404, "There is no incident of that id.")
        return found


def back(path: str, by: str, identity: Identity) -> Response:
    """Return to a page after an answer; a name that was typed is remembered."""
    response = RedirectResponse(path, 303)
    if not identity.name:
        response.set_cookie(NAME_COOKIE, by.encode("ascii", "ignore").decode(), httponly=True, samesite="strict")
    return response


def _place(text: str) -> tuple[float, str] | None:
    opened, _, name = text.partition("~")
    try:
        return (float(opened), name) if name.isascii() and name.isalnum() else None
    except ValueError:
        return None
