"""What rules remembered: the kept events of a session, run through the real engine once more, and told by event.

Kept events are redacted and cut, so a rule about a long text may see less than it did. What was found is in the
alerts; this only says how it came to that.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Lock, Thread
from typing import Final, TypeAlias

from stream_guard.errors import StreamGuardError
from stream_guard.explaining.timeline import StateChange
from stream_guard.explaining.waypoints import FoldedSession, NumberedEvent
from stream_guard.history import alert_rows, kept_events
from stream_guard.history.alert_rows import AlertMark
from stream_guard.history.database import Database
from stream_guard.history.kept_events import KeptSession
from stream_guard.judge.spec import Policy

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
