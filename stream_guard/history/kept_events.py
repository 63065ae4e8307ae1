"""Recent events of sessions, redacted and bounded, so that a person can see what led to an alert."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any, Final

import msgspec

from stream_guard.errors import StoreError
from stream_guard.history import tallies
from stream_guard.history.alert_rows import column, key_of, session_key
from stream_guard.history.attempts import AttemptCounter
from stream_guard.history.database import Database, Statements
from stream_guard.history.records import from_text, to_text
from stream_guard.history.tallies import Tally, bucket_of
from stream_guard.judge.model import Event, GateDecision, Header, Json, resolved
from stream_guard.redaction import mask_id, mask_secrets, redact
from stream_guard.settings import PageSettings

_logger = logging.getLogger(__name__)

_PAUSE: Final = 0.25  # seconds between two writes
_WAITING: Final = 50_000  # events that wait to be written; more are not kept
_AT_ONCE: Final = 200  # events of one transaction: whoever else writes does not wait long
_TOGETHER: Final = 500  # ids in one statement
_TEXT: Final = 2_000  # characters of one text
_RECALLED: Final = 64  # events by which a session is taken up again: more calls are seldom open


@resolved
class KeptSession(msgspec.Struct, frozen=True, kw_only=True):
    """What the history knows of a session."""

    id: str
    agent: str = ""
    tenant: str = ""
    first: float | None = None  # event times
    last: float | None = None
    noted: float = 0.0  # when its last event was kept
    events: int = 0
    calls: int = 0
    ended: bool = False


class KeptEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event as it was kept, with its number in the session."""

    number: int
    event: dict[str, Json]


class EventKeeper:
    """Keeps events in the history from a thread of its own: whoever hands them over does not wait.

    Under a flood it keeps what it can. ``left_out`` counts the others; they were judged all the same.
    """

    def __init__(
        self, database: Database, limits: PageSettings | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._limits = limits or PageSettings()
        self._clock = clock
        self._waiting: deque[Event] = deque()
        self._lock = Lock()  # one writer at a time
        self._stop = Flag()
        self._tally = Tally(tallies.known_names(database))
        self._attempts = AttemptCounter(self._limits.sessions)
        self.left_out = 0
        self._thread = Thread(target=self._run, name="stream_guard-events", daemon=True)
        self._thread.start()

    def keep(self, events: Iterable[Event]) -> None:
        """Take events in; they are written soon."""
        for event in events:
            if len(self._waiting) >= _WAITING:
                self.left_out += 1
            else:
                self._waiting.append(event)

    def keep_one(self, event: Event) -> None:
        """Take one event in."""
        self.keep((event,))

    def flush(self) -> None:
        """Write everything that waits."""
        with self._lock:
            while self._waiting:
                self._write([self._waiting.popleft() for _ in range(min(_AT_ONCE, len(self._waiting)))])

    def close(self) -> None:
        """Write what waits, and end the thread."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_PAUSE):
            self._flush_or_say_why()
        self._flush_or_say_why()

    def _flush_or_say_why(self) -> None:
        try:
            self.flush()
        except StoreError as error:
            _logger.error("recent events are not kept for the page: %s", error)  # noqa: TRY400  (it says why)

    def _write(self, events: Sequence[Event]) -> None:
        now = self._clock()
        by_session: dict[str, list[Event]] = {}
        for event in map(_without_secrets, events):
            by_session.setdefault(event.session_id, []).append(event)
        try:
            with self._database.transaction() as statements:
                for session_id, mine in by_session.items():
                    self._write_session(statements, session_id, mine, now)
                self._tally.write(statements)
                self._forget(statements)
        except StoreError:
            self.left_out += len(events)
            raise

    def _count(self, event: Event, now: float) -> int:
        """Count what an event tells of, and return the number of its attempts."""
        bucket, tenant = bucket_of(event.time, now), event.labels.get("tenant", "")
        attempted = self._attempts.take(event.session_id, event)
        for tool in attempted.tools:
            self._tally.add("tool", tool, tenant, bucket)
            if event.agent:
                self._tally.add("agent", event.agent, tenant, bucket)
        if attempted.failed:
            self._tally.add("tool_error", attempted.failed, tenant, bucket)
        if isinstance(event, GateDecision):
            self._tally.add("decision", event.action, tenant, bucket)
        return len(attempted.tools)

    def _recall(self, statements: Statements, known: KeptSession, key: str) -> None:
        """Follow a session that another process, or this one before a restart, kept events of."""
        rows = statements.run(
            "SELECT number, body FROM sg_events WHERE session = ? AND number > ? ORDER BY number",
            key,
            known.events - _RECALLED,
        )
        kept = (KeptEvent(number=int(number), event=json.loads(body)) for number, body in rows)
        self._attempts.recall(known.id, (event for one in kept if (event := as_event(one, known.id)) is not None))

    def _write_session(self, statements: Statements, session_id: str, events: Sequence[Event], now: float) -> None:
        key = session_key(session_id)
        rows = statements.run("SELECT body FROM sg_sessions WHERE session = ?", key)
        known = from_text(rows[0][0], KeptSession) if rows else KeptSession(id=session_id)
        if known.events and not self._attempts.knows(session_id):
            self._recall(statements, known, key)
        number, calls = known.events, known.calls
        for event in events:
            kind = type(event).__name__
            entry = column(f"{kind}.{event.event_id}") if event.event_id else f"{kind}~{number + 1}"
            if event.event_id and statements.run("SELECT 1 FROM sg_events WHERE session = ? AND entry = ?", key, entry):
                continue  # told again
            number += 1
            calls += self._count(event, now)
            statements.run("INSERT INTO sg_events VALUES (?, ?, ?, ?)", key, number, entry, _shown(event))
        statements.run(
            "DELETE FROM sg_events WHERE session = ? AND number <= ?", key, number - self._limits.session_events
        )
        self._save(statements, key, _extended(known, events, now, number, calls))

    def _save(self, statements: Statements, key: str, known: KeptSession) -> None:
        [(seen,)] = statements.run("SELECT max(seen) FROM sg_sessions")
        statements.run(
            "INSERT INTO sg_sessions VALUES (?, ?, ?, ?, ?) ON CONFLICT (session) DO UPDATE "
            "SET seen = excluded.seen, events = excluded.events, body = excluded.body",
            key,
            (seen or 0) + 1,
            column(known.tenant),
            known.events,
            to_text(known),
        )

    def _forget(self, statements: Statements) -> None:
        """Drop the sessions that were not heard of for longest, where there are too many."""
        [(count,)] = statements.run("SELECT count(*) FROM sg_sessions")
        if count > self._limits.sessions:
            rows = statements.run(
                "SELECT session FROM sg_sessions ORDER BY seen LIMIT ?", int(count) - self._limits.sessions
            )
            for (key,) in rows:
                statements.run("DELETE FROM sg_events WHERE session = ?", key)
                statements.run("DELETE FROM sg_sessions WHERE session = ?", key)


def find_session(database: Database, name: str, tenant: str = "") -> KeptSession | None:
    """Return a session by its id, or by ``~`` and its key; with a tenant, only one of that tenant."""
    rows = database.read("SELECT body FROM sg_sessions WHERE session = ?", key_of(name))
    found = from_text(rows[0][0], KeptSession) if rows else None
    return found if found is not None and tenant in ("", found.tenant) else None


def events_of(database: Database, session_id: str, after: int = 0, limit: int = 100) -> list[KeptEvent]:
    """Return the events of a session after a number, in order."""
    rows = database.read(
        "SELECT number, body FROM sg_events WHERE session = ? AND number > ? ORDER BY number LIMIT ?",
        session_key(session_id),
        after,
        limit,
    )
    return [KeptEvent(number=int(number), event=json.loads(body)) for number, body in rows]


def as_event(kept: KeptEvent, session_id: str) -> Event | None:
    """Return a kept event as an event again, redacted as it is; None where too much of it was cut."""
    try:
        return msgspec.convert({**kept.event, "session_id": session_id}, Event)  # type: ignore[no-any-return]
    except msgspec.ValidationError:
        return None


def numbered_events(database: Database, session_id: str, after: int, until: int) -> list[tuple[int, Event]]:
    """Return kept events as events again, with their numbers, from one number to another.

    Each has an id, so that it can be found again. Those of which too much was cut are left out.
    """
    rows = database.read(
        "SELECT number, body FROM sg_events WHERE session = ? AND number > ? AND number <= ? ORDER BY number",
        session_key(session_id),
        after,
        until,
    )
    begin = f'{{"session_id": {json.dumps(session_id)}, '
    found = []
    for number, body in rows:
        try:
            event = _DECODER.decode(begin + body[1:])
        except msgspec.MsgspecError:
            continue
        if not event.event_id:
            event = msgspec.structs.replace(event, event_id=f"kept-{number}")
        found.append((int(number), event))
    return found


def replay_session(database: Database, session_id: str) -> list[Event]:
    """Return all kept events of a session, in order; none where the session is not kept from its beginning."""
    kept = events_of(database, session_id, limit=2**31)
    if not kept or kept[0].number != 1:
        return []
    return [event for one in kept if (event := as_event(one, session_id)) is not None]


def kept_range(database: Database, session_id: str) -> tuple[int, int]:
    """Return the numbers of the first and the last event that are kept of a session; 1 and 0 without any."""
    key = session_key(session_id)
    [(first, last)] = database.read(  # each by itself comes from the index; together they would be looked for
        "SELECT (SELECT min(number) FROM sg_events WHERE session = ?), "
        "(SELECT max(number) FROM sg_events WHERE session = ?)",
        key,
        key,
    )
    return (1, 0) if first is None else (int(first), int(last))


def kinds_of(database: Database, session_id: str, numbers: Sequence[int]) -> list[str]:
    """Return the types of some events of a session, without reading the events."""
    marks = ", ".join("?" * len(numbers))
    rows = database.read(
        f"SELECT substr(entry, 1, 12) FROM sg_events WHERE session = ? AND number IN ({marks}) ORDER BY number",  # noqa: S608  # no value is in it
        session_key(session_id),
        *numbers,
    )
    return [entry.partition(".")[0].partition("~")[0] for (entry,) in rows]


def numbers_of(database: Database, session_id: str, event_ids: Iterable[str]) -> dict[str, int]:
    """Return by their ids the numbers of events in their session; those that are not kept are left out."""
    ids = {column(f"{kind}.{event_id}"): event_id for event_id in event_ids for kind in _KINDS}
    found: dict[str, int] = {}
    asked = list(ids)
    for begin in range(0, len(asked), _TOGETHER):
        entries = asked[begin : begin + _TOGETHER]
        rows = database.read(
            f"SELECT entry, number FROM sg_events WHERE session = ? AND entry IN ({', '.join('?' * len(entries))})",  # noqa: S608  # no value is in it
            session_key(session_id),
            *entries,
        )
        for entry, number in rows:
            found[ids[entry]] = min(int(number), found.get(ids[entry], int(number)))
    return found


def sessions(
    database: Database, before: int | None = None, limit: int = 50, tenant: str = ""
) -> list[tuple[int, KeptSession]]:
    """Return sessions with the number of their last change, the latest first."""
    where, values = ("AND tenant = ?", [column(tenant)]) if tenant else ("", [])
    rows = database.read(
        f"SELECT seen, body FROM sg_sessions WHERE seen < ? {where} ORDER BY seen DESC LIMIT ?",  # noqa: S608  # no value is in it
        2**62 if before is None else before,
        *values,
        limit,
    )
    return [(int(seen), from_text(body, KeptSession)) for seen, body in rows]


_DECODER: Final = msgspec.json.Decoder(Event)
_KINDS: Final = tuple(kind.__name__ for kind in Header.__subclasses__())
_LEFT_OUT: Final = frozenset(("index", "attempt", "session_id"))


def _without_secrets(event: Event) -> Event:
    """Return the event as alerts name it and its agent; its texts are redacted when they are written."""
    event_id, agent = mask_id(event.event_id), mask_secrets(event.agent)
    if (event_id, agent) == (event.event_id, event.agent):
        return event
    return msgspec.structs.replace(event, event_id=event_id, agent=agent)


def _shown(event: Event) -> str:
    """Return what is kept of an event: no secrets, and no long texts."""
    plain: dict[str, Any] = {"kind": event.__struct_config__.tag}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if name in _LEFT_OUT or value is None or value == "" or (value in ({}, ()) and name != "args"):
            continue
        plain[name] = value if isinstance(value, bool | float | int) else redact(_brief(name, value), _TEXT)
    return json.dumps(plain)


def _brief(name: str, value: Json) -> Json:
    """Return a turn's request without its messages: each was an event or an answer before."""
    if name != "request" or not isinstance(value, dict):
        return value
    return {key: item for key, item in value.items() if key not in ("messages", "tools")}


def _extended(known: KeptSession, events: Sequence[Event], now: float, number: int, calls: int) -> KeptSession:
    times = [event.time for event in events if event.time is not None]
    return msgspec.structs.replace(
        known,
        agent=known.agent or next((event.agent for event in events if event.agent), ""),
        tenant=known.tenant or events[0].labels.get("tenant", ""),
        first=min([*times, *([known.first] if known.first is not None else [])], default=None),
        last=max([*times, *([known.last] if known.last is not None else [])], default=None),
        noted=now,
        events=number,
        calls=calls,
        ended=type(events[-1]).__name__ == "SessionEnd",
    )
