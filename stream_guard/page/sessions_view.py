"""The views of sessions: the latest ones, and one as a timeline with what rules found in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from stream_guard.explaining.timeline import StateChange
from stream_guard.history import alert_rows, kept_events
from stream_guard.history.alert_rows import NotedAlert
from stream_guard.history.kept_events import KeptEvent, KeptSession
from stream_guard.model import Json
from stream_guard.page import charts
from stream_guard.page.alerts_view import number_in
from stream_guard.page.parts import PageTools
from stream_guard.page.rendering import HEADERS
from stream_guard.page.sign_in import who
from stream_guard.page.states import AT_ONCE, SessionStates, StateReader
from stream_guard.serve.bodies import RequestRefused

_PAGE: Final = 100  # events that are sent at once
_LISTED: Final = 50
_TICKS: Final = 240
_WORDS: Final = {
    "UserMessage": "user",
    "Turn": "turn",
    "ToolCall": "call",
    "GateDecision": "decision",
    "ToolResult": "result",
    "SessionEnd": "end",
}
# Where several kinds share a tick, the rarest and most telling is shown.
_RANKS: Final = ("decision", "user", "call", "result", "turn", "end")


class ShownEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a timeline, as it is shown."""

    number: int
    kind: str
    id: str = ""
    time: float | None = None
    offset: float | None = None  # seconds since the session began
    texts: tuple[str, ...] = ()
    tool: str = ""
    tools: tuple[str, ...] = ()  # that a turn asks for
    value: Json = None  # arguments or output
    word: str = ""  # status, action or reason
    rules: tuple[str, ...] = ()
    agent: str = ""
    findings: tuple[NotedAlert, ...] = ()
    changes: tuple[StateChange, ...] = ()  # of rules' states


class SessionViews:
    """Sessions whose events are kept."""

    def __init__(self, tools: PageTools) -> None:
        self._tools = tools
        self._database = tools.parts.database
        self._states = StateReader(tools.parts.database)

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [Route("/sessions", self.listing), Route("/sessions/{id:path}", self.session)]

    def listing(self, request: Request) -> Response:
        """Show the sessions that were heard of last."""
        before = number_in(request, "before")
        found = kept_events.sessions(self._database, before, _LISTED + 1, who(request).tenant)
        following = found[_LISTED - 1][0] if len(found) > _LISTED else None
        listed = [
            (session, len(alert_rows.of_session(self._database, session.id, 100))) for _, session in found[:_LISTED]
        ]
        return self._tools.templates.page(request, "sessions.html", sessions=listed, following=following, before=before)

    def session(self, request: Request) -> Response:
        """Show one session, some events at a time."""
        name, tenant = request.path_params["id"], who(request).tenant
        session = kept_events.find_session(self._database, name, tenant)
        alerts = self._alerts(name if session is None else session.id, tenant)
        if session is None and not alerts:
            raise RequestRefused(
                404,
                "There is no session of that id here. Events are kept for the latest sessions only (page.sessions).",
            )
        session = session or KeptSession(id=alerts[0].alert.session_id)
        asked = number_in(request, "states")
        if asked is not None:
            changes = self._states.read(session, self._tools.parts.policy()).changes.get(asked, ())
            return HTMLResponse(self._tools.templates.fragment("_changes.html", changes=changes), headers=HEADERS)
        at_once = session.events <= AT_ONCE
        states = self._states.read(session, self._tools.parts.policy()) if at_once else SessionStates({}, {})
        after = number_in(request, "after")
        at = number_in(request, "at") or self._number_of(session, request.query_params.get("event", ""), alerts, states)
        if after is None:
            after = max(0, (at or 0) - 8)
        steps = self._steps(session, alerts, after, states)
        following = steps[-1].number if len(steps) == _PAGE else None
        values: dict[str, Any] = {"session": session, "steps": steps, "following": following, "at": at}
        values["ask_states"] = not at_once
        if request.query_params.get("part") == "events":
            return HTMLResponse(self._tools.templates.fragment("_steps.html", **values), headers=HEADERS)
        return self._tools.templates.page(
            request, "session.html", alerts=alerts, after=after, **values, **self._glance(session, alerts, states)
        )

    def _alerts(self, session_id: str, tenant: str) -> list[NotedAlert]:
        found = alert_rows.of_session(self._database, session_id)
        return [noted for noted in found if tenant in ("", noted.alert.labels.get("tenant", ""))]

    def _number_of(
        self, session: KeptSession, event_id: str, alerts: Sequence[NotedAlert], states: SessionStates
    ) -> int | None:
        """Return where an event stands; one that came out of another, such as a call in a turn, stands there."""
        if not event_id:
            return None
        found = {noted.alert.event_id: states.places.get(noted.alert.alert_id) for noted in alerts}
        return (
            found.get(event_id)
            or kept_events.number_of(self._database, session.id, event_id)
            or kept_events.number_of(self._database, session.id, event_id.rpartition("/")[0])
        )

    def _steps(
        self, session: KeptSession, alerts: Sequence[NotedAlert], after: int, states: SessionStates
    ) -> list[ShownEvent]:
        kept = kept_events.events_of(self._database, session.id, after, _PAGE)
        by_event: dict[str | int, list[NotedAlert]] = {}
        for noted in alerts:
            place = states.places.get(noted.alert.alert_id) or noted.alert.event_id
            by_event.setdefault(place, []).append(noted)
        return [step_of(event, session, by_event, states.changes.get(event.number, ())) for event in kept]

    def _glance(self, session: KeptSession, alerts: Sequence[NotedAlert], states: SessionStates) -> dict[str, Any]:
        first, last = kept_events.kept_range(self._database, session.id)
        total = last - first + 1
        kinds = kept_events.kinds_of(self._database, session.id, max(1, total // (2 * _TICKS)))
        places = {
            noted.number: states.places.get(noted.alert.alert_id)
            or self._number_of(session, noted.alert.event_id, (), states)
            for noted in alerts[:100]
        }
        marks = [(place - first + 1, noted.alert.severity) for noted in alerts if (place := places.get(noted.number))]
        label = f"{total} events; {len(alerts)} findings"
        return {
            "strip": charts.strip(ticks(kinds), marks, total, label) if kinds else None,
            "places": places,
            "first": first,
        }


def ticks(kinds: Sequence[tuple[int, str]]) -> list[str]:
    """Return what each tick of the strip stands for; a long session has several events in one."""
    words = [_WORDS.get(kind, "") for _, kind in kinds]
    if len(words) <= _TICKS:
        return words
    bins = [words[len(words) * one // _TICKS : len(words) * (one + 1) // _TICKS] for one in range(_TICKS)]
    return [min(bin_, key=_RANKS.index) if bin_ else "" for bin_ in bins]


def step_of(
    kept: KeptEvent,
    session: KeptSession,
    findings: dict[str | int, list[NotedAlert]],
    changes: tuple[StateChange, ...] = (),
) -> ShownEvent:
    """Return an event as it is shown."""
    event = kept.event
    time, kind = event.get("time"), str(event.get("kind", ""))
    response = event.get("response")
    texts, tools = _content(response) if isinstance(response, dict) else ((), ())
    if kind == "user_message":
        texts = (str(event.get("text", "")),)
    value = event.get("output") if kind == "tool_result" else event.get("args")
    return ShownEvent(
        number=kept.number,
        kind=kind,
        id=str(event.get("event_id", "")),
        time=time,
        offset=time - session.first if time is not None and session.first is not None else None,
        texts=texts,
        tool=str(event.get("tool", "")),
        tools=tools,
        value=None if kind == "decision" else value,
        word=str(event.get("status") or event.get("action") or event.get("reason") or ""),
        rules=tuple(map(str, event.get("rule_ids", ()))),
        agent=str(event.get("agent", "")),
        findings=(*findings.get(kept.number, ()), *findings.get(str(event.get("event_id") or "-"), ())),
        changes=changes,
    )


def _content(response: dict[str, Json]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the texts of a model's answer, and the tools that it asks for."""
    content = response.get("content")
    if isinstance(content, str):
        return (content,), ()
    blocks: Iterable[Json] = content if isinstance(content, list) else ()
    texts, tools = [], []
    for block in blocks:
        if isinstance(block, dict) and block.get("type") == "tool_use":
            tools.append(str(block.get("name", "")))
        elif isinstance(block, dict):
            texts.append(str(block.get("text") or block.get("thinking") or ""))
        else:
            texts.append(str(block))
    return tuple(text for text in texts if text), tuple(tools)
