"""The events of a sending partition for cross-session rules of other partitions."""

from __future__ import annotations

from collections.abc import Set
from typing import TypeAlias

from stream_guard.judge.model import Event, SessionEnd
from stream_guard.worker.rows import EventPosition

OutgoingEvent: TypeAlias = tuple[EventPosition, str, int, list[int], Event]
"""An event for a key value: its position, the key value, the turns and the memory of its session, and the event."""


class OutgoingEvents:
    """Collects events for key values, each with the position of the event that brought it."""

    def __init__(self) -> None:
        self._events: list[OutgoingEvent] = []
        self._offset = self._event_number = self._message_number = 0

    def begin_record(self, offset: int) -> None:
        """Set the record of the next events; their positions contain its offset."""
        self._offset, self._event_number = offset, 0

    def begin_event(self) -> None:
        """Begin the next event of the record, also where it is not judged: its session contains it already."""
        self._event_number += 1
        self._message_number = 0

    def add(self, key_id: str, event: Event, turns: int, memory: Set[int], is_read: bool) -> None:
        """Collect an event for a key value; without its content where no rule reads it."""
        self._message_number += 1
        position = (self._offset, self._event_number, self._message_number)
        self._events.append((position, key_id, turns, sorted(memory), event if is_read else _without_content(event)))

    def take(self) -> list[OutgoingEvent]:
        """Return the events since the last time."""
        taken, self._events = self._events, []
        return taken


def _without_content(event: Event) -> SessionEnd:
    return SessionEnd(
        session_id=event.session_id,
        event_id=event.event_id,
        time=event.time,
        run_id=event.run_id,
        agent=event.agent,
        labels=event.labels,
    )
