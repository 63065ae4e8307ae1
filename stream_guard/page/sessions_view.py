"""The views of sessions: the latest ones, and one as a timeline with what rules found in it."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, Final, TypeAlias

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from stream_guard.errors import StreamGuardError
from stream_guard.explaining.timeline import StateChange
from stream_guard.explaining.waypoints import FoldedSession, NumberedEvent
from stream_guard.history import alert_rows, kept_events
from stream_guard.history.alert_rows import AlertMark, NotedAlert
from stream_guard.history.database import Database
from stream_guard.history.kept_events import KeptSession
from stream_guard.judge.spec import Policy
from stream_guard.page import charts
from stream_guard.page.alerts_view import number_in
from stream_guard.page.parts import HEADERS, PageTools, Views
from stream_guard.page.sign_in import who
from stream_guard.page.steps import ShownEvent, place_of, places_of, step_of
from stream_guard.serve.bodies import RequestRefused

_PAGE: Final = 60  # events that are sent at once
_ABOVE: Final = 8  # events above the one that was asked for
_LOADED: Final = 600  # events after which the rest is a page of its own: a browser does not hold 20,000
_LISTED: Final = 50
_COUNTED: Final = 100  # findings of a session in a list
_FINDINGS: Final = 30  # of a session that are listed one by one
_LOOKED_UP: Final = 100  # findings whose event is looked for in the history
_TICKS: Final = 240
_WORDS: Final = {
    "UserMessage": "user",
    "Turn": "turn",
    "ToolCall": "call",
    "GateDecision": "decision",
    "ToolResult": "result",
    "SessionEnd": "end",
}


class SessionViews(Views):
    """Sessions whose events are kept."""

    def __init__(self, tools: PageTools) -> None:
        super().__init__(tools)
        self._states = StateReader(tools.parts.database)
        self._marks = MarkReader(tools.parts.database)

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [Route("/sessions", self.listing), Route("/sessions/{id:path}", self.session)]

    def listing(self, request: Request) -> Response:
        """Show the sessions that were heard of last."""
        before = number_in(request, "before")
        found = kept_events.sessions(self._database, before, _LISTED + 1, who(request).tenant)
        following = found[_LISTED - 1][0] if len(found) > _LISTED else None
        shown = [session for _, session in found[:_LISTED]]
        worst = alert_rows.worst_of_sessions(self._database, [session.id for session in shown], _COUNTED)
        listed = [(session, *findings) for session, findings in zip(shown, worst, strict=True)]
        return self._tools.templates.page(request, "sessions.html", sessions=listed, following=following, before=before)

    def session(self, request: Request) -> Response:
        """Show one session, some events at a time."""
        session, marks = self._find(request)
        policy = self._tools.parts.policy()
        asked = number_in(request, "states")
        if asked is not None:
            found = self._states.changes(session, policy, asked, asked).get(asked, ())
            return HTMLResponse(self._tools.templates.fragment("_changes.html", changes=found), headers=HEADERS)
        places = self._places(session, marks, policy)
        at = number_in(request, "at") or self._number_of(session, request.query_params.get("event", ""), marks, places)
        after = number_in(request, "after")
        if after is None:
            after = max(0, (at or 0) - _ABOVE)
        near = self._states.is_near(session, policy, after + _PAGE)
        changes = self._states.changes(session, policy, after + 1, after + _PAGE) if near else {}
        steps = self._steps(session, marks, places, changes, after)
        loaded = (number_in(request, "loaded") or 0) + len(steps)
        values: dict[str, Any] = {
            "session": session,
            "steps": steps,
            "following": steps[-1].number if len(steps) == _PAGE else None,
            "loaded": loaded,
            "goes_on": loaded < _LOADED,
            "at": at,
            "ask_states": not near,
        }
        if request.query_params.get("part") == "events":
            return HTMLResponse(self._tools.templates.fragment("_steps.html", **values), headers=HEADERS)
        glance = self._glance(session, marks, places, (after + 1, after + len(steps)))
        page = self._tools.templates.page(
            request, "session.html", after=after, earlier=max(0, after - _PAGE), **values, **glance
        )
        self._states.prepare(session, policy)  # whoever looks at it may ask for states next
        return page

    def _find(self, request: Request) -> tuple[KeptSession, Sequence[AlertMark]]:
        name, tenant = request.path_params["id"], who(request).tenant
        session = kept_events.find_session(self._database, name, tenant)
        marks = self._marks.read(name, tenant)
        if session is None and marks:
            [first] = alert_rows.of_numbers(self._database, [marks[0].number])
            session = KeptSession(id=first.alert.session_id)
        if session is None:
            raise RequestRefused(
                404,
                "There is no session of that id here. Events are kept for the latest sessions only (page.sessions).",
            )
        return session, marks

    def _places(self, session: KeptSession, marks: Sequence[AlertMark], policy: Policy) -> dict[int, int]:
        """Return by an alert's number at which event it stands, as far as that is known or quickly found."""
        known = self._states.places(session, policy)
        places = {mark.number: place for mark in marks if (place := known.get(mark.alert_id))}
        unknown = [mark for mark in marks[:_LOOKED_UP] if mark.number not in places]
        found = places_of(self._database, session.id, [mark.event_id for mark in unknown])
        return places | {mark.number: found[mark.event_id] for mark in unknown if mark.event_id in found}

    def _number_of(
        self, session: KeptSession, event_id: str, marks: Sequence[AlertMark], places: Mapping[int, int]
    ) -> int | None:
        mine = (places.get(mark.number) for mark in marks if event_id and mark.event_id == event_id)
        return next(filter(None, mine), None) or place_of(self._database, session.id, event_id)

    def _steps(
        self,
        session: KeptSession,
        marks: Sequence[AlertMark],
        places: Mapping[int, int],
        changes: Mapping[int, Changes],
        after: int,
    ) -> list[ShownEvent]:
        kept = kept_events.events_of(self._database, session.id, after, _PAGE)
        numbers = {str(event.event.get("event_id") or "-"): event.number for event in kept}
        shown = {event.number for event in kept}
        stand: dict[int, int] = {}
        for mark in marks:
            place = (
                places.get(mark.number) or numbers.get(mark.event_id) or numbers.get(mark.event_id.rpartition("/")[0])
            )
            if place in shown:
                stand[mark.number] = place
        findings: dict[int, list[NotedAlert]] = {}
        for noted in alert_rows.of_numbers(self._database, list(stand)):
            findings.setdefault(stand[noted.number], []).append(noted)
        return [
            step_of(event, session, findings.get(event.number, ()), changes.get(event.number, ())) for event in kept
        ]

    def _glance(
        self, session: KeptSession, marks: Sequence[AlertMark], places: Mapping[int, int], window: tuple[int, int]
    ) -> dict[str, Any]:
        first, last = kept_events.kept_range(self._database, session.id)
        total = last - first + 1
        looked_at = sorted({first + total * one // (2 * _TICKS) for one in range(2 * _TICKS)})
        kinds = kept_events.kinds_of(self._database, session.id, looked_at) if total else []
        pins = {(places[mark.number] - first + 1, mark.severity) for mark in marks if mark.number in places}
        label = f"{total} events; {len(marks)} findings"
        here = (window[0] - first, window[1] - first + 1)
        return {
            "strip": charts.strip(ticks(kinds), sorted(pins), total, label, here) if kinds else None,
            "total": total,
            "first": first,
            "count": len(marks),
            "alerts": alert_rows.of_numbers(self._database, [mark.number for mark in marks[:_FINDINGS]]),
            "by_rule": Counter(mark.rule_id for mark in marks).most_common(_FINDINGS) if len(marks) > _FINDINGS else (),
            "first_of": {mark.rule_id: mark for mark in reversed(marks)},
            "places": places,
        }


def ticks(kinds: Sequence[str]) -> list[str]:
    """Return what each tick of the strip stands for; a long session has several events in one."""
    words = [_WORDS.get(kind, "") for kind in kinds]
    if len(words) <= _TICKS:
        return words
    bins = [words[len(words) * one // _TICKS : len(words) * (one + 1) // _TICKS] for one in range(_TICKS)]
    # Where several kinds share a tick, the rarest and most telling is shown.
    return [min(filter(None, bin_), key=charts.TICKS.index, default="") for bin_ in bins]


# What rules remembered: the kept events of a session, run through the real engine once more, and told by event.
#
# Kept events are redacted and cut, so a rule about a long text may see less than it did. What was found is in the
# alerts; this only says how it came to that.


_REMEMBERED: Final = 8  # sessions
_AT_ONCE: Final = 1_500  # events that are folded while somebody waits for a page
_CHUNK: Final = 200  # events that are folded under one lock: whoever asks meanwhile does not wait long
_TURN: Final = 25  # events, about a millisecond, after which other threads have their turn
_AWAY: Final = 0.0002  # seconds; enough for whoever waits to begin, and then they go on for as long as they need
_AT_REST: Final = 0.001  # the same where nobody waits for what is folded

Changes: TypeAlias = tuple[StateChange, ...]
_Key: TypeAlias = tuple[str, str]  # a session's id and a policy's version


class MarkReader:
    """Tells which alerts sessions have; those that were asked for last are remembered, and only new ones are read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: OrderedDict[tuple[str, str], tuple[AlertMark, ...]] = OrderedDict()
        self._lock = Lock()

    def read(self, name: str, tenant: str) -> Sequence[AlertMark]:
        """Return the marks of one session, the earliest first; with a tenant, only that tenant's."""
        with self._lock:
            known = self._known.pop((name, tenant), ())
            last = known[-1].number if known else 0
            known = (*known, *alert_rows.marks_of_session(self._database, name, tenant, last))
            self._known[name, tenant] = known
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known


class StateReader:
    """Tells states of sessions; those that were asked for last are remembered, and folded on as they grow."""

    def __init__(self, database: Database, sleep: Callable[[float], None] = time.sleep) -> None:
        self._database = database
        self._sleep = sleep
        self._known: OrderedDict[_Key, tuple[FoldedSession, Lock]] = OrderedDict()
        self._lock = Lock()
        self._preparing = Lock()

    def is_near(self, session: KeptSession, policy: Policy, last: int) -> bool:
        """Whether the states up to an event can be told while somebody waits."""
        begin = kept_events.kept_range(self._database, session.id)[0] - 1
        folded, _ = self._folded(session, policy)
        return min(last, session.events) - max(folded.reached, begin) <= _AT_ONCE

    def places(self, session: KeptSession, policy: Policy) -> dict[str, int]:
        """Return by an alert's id at which event it was found; of a long session, as far as it was folded."""
        if self.is_near(session, policy, session.events):
            self._fold_to(session, policy, session.events)
        folded, lock = self._folded(session, policy)
        with lock:
            return dict(folded.places)

    def changes(self, session: KeptSession, policy: Policy, first: int, last: int) -> dict[int, Changes]:
        """Return by the number of an event the states that it changed."""
        end = min(last, session.events)
        self._fold_to(session, policy, end)
        folded, lock = self._folded(session, policy)
        with lock:
            begin, until = folded.waypoint_before(first), end + folded.ahead
            events = kept_events.numbered_events(self._database, session.id, begin, until)
            return folded.changes(events, first, end)

    def prepare(self, session: KeptSession, policy: Policy) -> None:
        """Fold a session to its end while nobody waits; one at a time, as whoever still looks asks again."""
        if self._folded(session, policy)[0].reached < session.events and self._preparing.acquire(blocking=False):
            Thread(target=self._prepare, args=(session, policy), name="stream_guard-states", daemon=True).start()

    def _prepare(self, session: KeptSession, policy: Policy) -> None:
        try:
            with suppress(StreamGuardError):  # whoever asks for the states is told
                self._fold_to(session, policy, session.events, _AT_REST)
        finally:
            self._preparing.release()

    def _folded(self, session: KeptSession, policy: Policy) -> tuple[FoldedSession, Lock]:
        key = (session.id, policy.version)
        with self._lock:
            known = self._known.pop(key, None) or (FoldedSession(session.id, policy), Lock())
            self._known[key] = known
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known

    def _fold_to(self, session: KeptSession, policy: Policy, number: int, away: float = _AWAY) -> None:
        folded, lock = self._folded(session, policy)
        begin = kept_events.kept_range(self._database, session.id)[0] - 1
        while folded.reached < number:
            with lock:
                after = max(folded.reached, begin)
                until = min(number, after + _CHUNK)
                events = kept_events.numbered_events(self._database, session.id, after, until)
                folded.fold(self._in_turns(events, away), until)

    def _in_turns(self, events: Sequence[NumberedEvent], away: float) -> Iterator[NumberedEvent]:
        """Yield events, and let other threads go first now and then: one interpreter runs one thread at a time."""
        for place, event in enumerate(events):
            if place % _TURN == 0:
                self._sleep(away)
            yield event
