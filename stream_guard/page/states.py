"""What rules remembered: the kept events of a session, run through the real engine once more, and told by event.

Kept events are redacted and cut, so a rule about a long text may see less than it did. What was found is in the
alerts; this only says how it came to that.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Final

import msgspec

from stream_guard.explaining.timeline import SessionTimeline, StateChange, follow_session
from stream_guard.history import kept_events
from stream_guard.history.database import Database
from stream_guard.history.kept_events import KeptEvent, KeptSession
from stream_guard.model import Event
from stream_guard.policy.spec import Policy

_REMEMBERED: Final = 8  # sessions
AT_ONCE: Final = 1_500  # events of a session whose states are told without being asked for


class SessionStates(msgspec.Struct, frozen=True):
    """By the number of an event: the states that it changed. By an alert's id: the event at which it was found."""

    changes: dict[int, tuple[StateChange, ...]]
    places: dict[str, int]


class StateReader:
    """Tells states of sessions; those that were asked for last are remembered."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: OrderedDict[tuple[str, int, str], SessionStates] = OrderedDict()
        self._lock = Lock()

    def read(self, session: KeptSession, policy: Policy) -> SessionStates:
        """Return the states of a session under a policy."""
        key = (session.id, session.events, policy.version)
        with self._lock:  # the same session is not run twice at once
            known = self._known.get(key)
            if known is None:
                kept = kept_events.events_of(self._database, session.id, limit=2**31)
                known = self._known[key] = told(kept, session.id, policy)
                while len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
        return known


def told(kept: list[KeptEvent], session_id: str, policy: Policy) -> SessionStates:
    """Run the events through the engine and return what became of the states."""
    events: list[Event] = []
    numbers: dict[str, int] = {}
    for one in kept:
        event = kept_events.as_event(one, session_id)
        if event is None:
            continue  # cut beyond what an event may be
        if not event.event_id:
            event = msgspec.structs.replace(event, event_id=f"kept-{one.number}")
        numbers.setdefault(event.event_id, one.number)
        events.append(event)
    return _placed(follow_session(events, policy, session_id, end=False), numbers)


def _placed(timeline: SessionTimeline, numbers: dict[str, int]) -> SessionStates:
    changes: dict[int, tuple[StateChange, ...]] = {}
    places: dict[str, int] = {}
    at = min(numbers.values(), default=1)
    for entry in timeline.entries:
        at = numbers.get(entry.event_id, at)  # a deadline belongs to the event before it
        if entry.changes:
            changes[at] = (*changes.get(at, ()), *entry.changes)
        for finding in entry.findings:
            places[finding.alert_id] = at
    return SessionStates(changes, places)
