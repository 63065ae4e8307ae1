"""The views of alerts: the list as it grows, and one alert with what it rests on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, get_args

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from stream_guard.history import alert_rows, incidents, inquiries, kept_events, verdicts
from stream_guard.history.alert_rows import AlertFilter, NotedAlert
from stream_guard.history.incidents import Incident, Status
from stream_guard.history.verdicts import WORDS
from stream_guard.judge.model import Severity
from stream_guard.page import charts
from stream_guard.page.live import Watched
from stream_guard.page.parts import HEADERS, PageTools, Views
from stream_guard.page.reviews_view import waiting_about
from stream_guard.page.sign_in import answerer, back, first_of, identify, local_target, who
from stream_guard.page.steps import steps_to
from stream_guard.serve.access import Identity
from stream_guard.serve.bodies import RequestRefused

SEVERITIES: Final = tuple(severity.word for severity in reversed(Severity))
_DAY: Final = 86_400
_BARS: Final = 48
_DRAWN: Final = 16  # pictures of rows that are remembered
_LOADED: Final = 500  # alerts after which older ones are a page of their own


class AlertViews(Views):
    """Alerts, live and one by one."""

    def __init__(self, tools: PageTools) -> None:
        super().__init__(tools)
        self._drawn: dict[tuple[tuple[int, ...], int], str] = {}  # only the thread of the streams looks at it

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [
            Route("/", self.listing),
            Route("/alerts/stream", self.stream),
            Route("/alerts/{id}", self.alert),
        ]

    def listing(self, request: Request) -> Response:
        """Show alerts, the latest first; new ones come in by themselves."""
        wanted = filter_of(request)
        before = number_in(request, "before")
        newest = alert_rows.newest(self._database)
        page = alert_rows.page(self._database, wanted, before)
        loaded = (number_in(request, "loaded") or 0) + len(page.alerts)
        common: dict[str, Any] = {"wanted": wanted, "page": page, "loaded": loaded, "goes_on": loaded < _LOADED}
        if request.query_params.get("part") == "rows":
            rows = self._tools.templates.fragment("_alert_page.html", **common)
            return HTMLResponse(rows, headers=HEADERS)
        values = {**common, "newest": newest, "before": before, "severities": SEVERITIES}
        rules = list(self._tools.series.read("finding", _DAY, _BARS, wanted.tenant))[:50]
        return self._tools.templates.page(
            request, "alerts.html", **values, rules=rules, tiles=self._tiles(wanted.tenant)
        )

    async def stream(self, request: Request) -> Response:
        """Send alerts as they are noted."""
        wanted = filter_of(request)
        last = request.headers.get("last-event-id", "")
        after = int(last) if last.isascii() and last.isdecimal() and len(last) < 18 else number_in(request, "after")

        def tiles() -> str:
            return self._tools.templates.fragment("_tiles.html", tiles=self._tiles(wanted.tenant), wanted=wanted)

        def is_known() -> bool:
            return isinstance(identify(self._tools.parts.door, request), Identity)

        events = self._tools.live.watch(Watched(wanted, self._draw, tiles, who(request).name, is_known), after)
        headers = {**HEADERS, "X-Accel-Buffering": "no"}
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    def _draw(self, noted: Sequence[NotedAlert], more: int) -> str:
        """Return rows; those that others were sent just now are not drawn again for each of them."""
        key = (tuple(one.number for one in noted), more)
        if key not in self._drawn:
            while len(self._drawn) >= _DRAWN:
                del self._drawn[next(iter(self._drawn))]
            self._drawn[key] = self._tools.templates.fragment("_alert_rows.html", alerts=noted, more=more, fresh=True)
        return self._drawn[key]

    async def alert(self, request: Request) -> Response:
        """Show one alert."""
        return await run_in_threadpool(self._alert, request)

    def _alert(self, request: Request) -> Response:
        found = alert_rows.get(self._database, request.path_params["id"], who(request).tenant)
        if found is None:
            raise RequestRefused(404, "There is no alert of that id. It may be from before the page kept alerts.")
        alert = found.alert
        rule = next((spec for spec in self._tools.parts.policy().rules if spec.id == alert.rule_id), None)
        session = kept_events.find_session(self._database, alert.session_id, who(request).tenant)
        return self._tools.templates.page(
            request,
            "alert.html",
            noted=found,
            rule=rule,
            steps=[] if session is None else steps_to(self._database, session, alert.event_id),
            incident=incidents.get(self._database, incidents.incident_id(alert.session_id, alert.rule_id)),
            asked=inquiries.of_alert(self._database, alert),
            verdict=verdicts.of_alert(self._database, alert.alert_id),
            reviews=waiting_about(self._tools, alert.session_id, alert.rule_id, who(request).tenant),
        )

    def _tiles(self, tenant: str) -> list[dict[str, Any]]:
        found = self._tools.series.read("severity", _DAY, _BARS, tenant)
        when = charts.ChartTime(time.time(), _DAY)
        tiles = []
        for severity in SEVERITIES:
            values = found.get(severity, [0] * _BARS)
            label = f"{severity} alerts over the last 24 hours: {sum(values)}"
            chart = charts.bars(values, label, when, tone=severity)
            tiles.append({"severity": severity, "count": sum(values), "chart": chart})
        return tiles


def filter_of(request: Request) -> AlertFilter:
    """Return the filter that an address has; somebody of one tenant sees that tenant's, whatever it says."""
    query = request.query_params
    severity = query.get("severity", "")
    return AlertFilter(
        severity=severity if severity in SEVERITIES else "",
        rule=query.get("rule", "")[:500],
        agent=query.get("agent", "")[:500],
        session=query.get("session", "")[:2000],
        text=query.get("q", "")[:200].strip(),
        tenant=who(request).tenant or query.get("tenant", "")[:100],
    )


def number_in(request: Request, name: str) -> int | None:
    """Return a number of the address, or None when it has none."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 18 else None


# The views of incidents: what rules found, whether it is solved, and whether the rule was right.


_ENTRIES: Final = 200  # of a timeline that are shown, and that one verdict may be for


class IncidentViews(Views):
    """Incidents and what people say about them."""

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
        if answer == "solve":
            said = {"by": by, "note": note, "tenant": identity.tenant, "via": identity.via}
            await run_in_threadpool(incidents.solve, self._database, found.id, time=time.time(), **said)
        else:
            entries = await run_in_threadpool(incidents.timeline, self._database, found.id, _ENTRIES)
            for entry in entries:
                if entry.alert_id:
                    await self._give(entry.alert_id, answer, by, note, identity)
        return back(f"/incidents/{found.id}", by, identity)

    async def judge(self, request: Request) -> Response:
        """Say of one finding whether it is right."""
        fields = await self._tools.forms.read(request)
        identity = who(request)
        by, note = answerer(identity, fields), first_of(fields, "note")[:2000]
        await self._give(request.path_params["id"], first_of(fields, "answer"), by, note, identity)
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


def _place(text: str) -> tuple[float, str] | None:
    opened, _, name = text.partition("~")
    try:
        return (float(opened), name) if name.isascii() and name.isalnum() else None
    except ValueError:
        return None
