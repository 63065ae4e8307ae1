"""States of a long session at any of its events, without beginning at the first one each time.

A session is folded once, in order and unwatched, which is quick. On the way its states are put aside every so many
events: at waypoints. What rules remembered at an event is told by folding again from the waypoint before it, and
only the events that were asked for are watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from stream_guard.explaining.states import show_all
from stream_guard.explaining.timeline import SessionTimeline, StateChange, follow_on
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event
from stream_guard.judge.spec import Policy
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import MemoryStore

_APART: Final = 100  # events between two waypoints of a short session
_MOST: Final = 200  # waypoints of one session; beyond them, every second one is given up
_MOST_BYTES: Final = 8 * 2**20  # of all waypoints of one session

# An event comes once: whoever keeps them leaves out what is told again. So a waypoint needs no list of what was seen.
_LIMITS: Final = SessionLimits(duplicate_window=2)
_LATE: Final = 50  # events after which one that waits for late ones is told

NumberedEvent: TypeAlias = tuple[int, Event]


class FoldedSession:
    """One session as far as it was folded: where its findings were made, and its waypoints."""

    def __init__(self, session_id: str, policy: Policy) -> None:
        self.places: dict[str, int] = {}  # by an alert's id: the number of the event at which it was found
        self.reached = 0  # the number of the last event that was folded
        self.ahead = _LATE if policy.max_out_of_orderness else 1
        self._session_id = session_id
        self._policy = policy
        self._numbers: dict[str, int] = {}
        self._at = 0
        self._placed = 0  # findings of the judge's present call that have their places
        self._store = MemoryStore()
        self._judge = Judge(show_all(policy, self._see), _LIMITS, store=self._store)
        self._waypoints: dict[int, MemoryStore] = {0: MemoryStore()}
        self._last_waypoint = 0
        self._apart = _APART

    def fold(self, events: Iterable[NumberedEvent], until: int) -> None:
        """Fold the events that follow, up to a number; some may be missing."""
        for number, event in events:
            if number <= self.reached:
                continue  # somebody else has folded it
            self._numbers.setdefault(event.event_id, number)
            self._at = self._at or number
            self._placed = 0
            self._judge.feed(event)
            self._place_findings()
            self.reached = number
            if number - self._last_waypoint >= self._apart:
                self._put_aside(number)
        self.reached = max(self.reached, until)
        self._place_findings()

    def waypoint_before(self, number: int) -> int:
        """Return after which event to begin, where the states at an event are asked for."""
        return max(waypoint for waypoint in self._waypoints if waypoint < max(number, 1))

    def changes(self, events: Sequence[NumberedEvent], first: int, last: int) -> dict[int, tuple[StateChange, ...]]:
        """Return what events changed, by their numbers, from ``first`` to ``last``.

        The events given begin after the waypoint, and there are ``ahead`` more at the end: a deadline that passes after
        an event is told when the next one comes.
        """
        begin = self.waypoint_before(first)
        store = _copy(self._waypoints[begin])
        judge = Judge(show_all(self._policy, lambda _: None), _LIMITS, store=store)
        for number, event in events:
            if begin < number < first:
                judge.feed(event)
        judge.commit()
        asked = [event for number, event in events if number >= first]
        timeline = follow_on(asked, self._policy, self._session_id, store, _LIMITS)
        return self._by_number(timeline, first, last)

    def _see(self, event: Event) -> None:
        """What was found up to now belongs to the event before; a deadline that passed meanwhile does too."""
        self._place_findings()
        self._at = self._numbers.get(event.event_id, self._at)  # an event that came out of another stands there

    def _place_findings(self) -> None:
        found = self._judge.found
        for finding in found[self._placed :]:
            if finding.session_id == self._session_id:
                self.places[finding.alert_id] = self._at
        self._placed = len(found)

    def _put_aside(self, number: int) -> None:
        self._judge.commit()
        self._waypoints[number] = _copy(self._store)
        self._last_waypoint = number
        while len(self._waypoints) > _MOST or (len(self._waypoints) > 2 and self._size() > _MOST_BYTES):
            self._waypoints = dict(list(self._waypoints.items())[::2])
            self._apart *= 2

    def _size(self) -> int:
        return sum(len(store.get(name) or b"") for store in self._waypoints.values() for name, _ in store.deadlines())

    def _by_number(self, timeline: SessionTimeline, first: int, last: int) -> dict[int, tuple[StateChange, ...]]:
        changes: dict[int, tuple[StateChange, ...]] = {}
        at = first
        for entry in timeline.entries:
            at = self._numbers.get(entry.event_id, at)
            if entry.changes and first <= at <= last:
                changes[at] = (*changes.get(at, ()), *entry.changes)
        return changes


def _copy(store: MemoryStore) -> MemoryStore:
    copied = MemoryStore()
    for name, deadline in store.deadlines():
        copied.put(name, store.get(name) or b"", deadline)
    return copied
