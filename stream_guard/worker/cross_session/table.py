"""The session table of a sending partition: it collects events for cross-session rules."""

from __future__ import annotations

from typing import TypeAlias

from stream_guard.judge.clock import SharedClock
from stream_guard.judge.counts import Counts
from stream_guard.judge.findings import Findings, Objections
from stream_guard.judge.fold import Engine
from stream_guard.judge.index import CrossSessionRules
from stream_guard.judge.model import Event, SessionEnd
from stream_guard.judge.ports import Store
from stream_guard.judge.session import Session
from stream_guard.judge.table import SessionTable
from stream_guard.judge.tracker import Counted
from stream_guard.settings import SessionLimits
from stream_guard.worker.rows import EventPosition

OutgoingEvent: TypeAlias = tuple[EventPosition, str, int, list[int], Event]
"""An event for a key value: its position, the key value, the turns and the memory of its session, and the event."""


class SendingTable(SessionTable):
    """Sessions whose events go to the cross-session rules of other partitions. None is evaluated here."""

    def __init__(self, engine: Engine, store: Store, counts: Counts, limits: SessionLimits, clock: SharedClock) -> None:
        self.outgoing: list[OutgoingEvent] = []
        self._offset = self._event_number = self._message_number = 0
        # By name, each of them: compiled, a call with *args would pass all of them as one tuple.
        super().__init__(engine, store, counts, limits, clock=clock)

    def begin_record(self, offset: int) -> None:
        """Set the record of the next events; their positions contain its offset."""
        self._offset, self._event_number = offset, 0

    def skip_event(self) -> None:
        """Count an event of the record that is not fed, because its session contains it already."""
        self._event_number += 1

    def feed(self, event: Event, out: Findings, *, at_once: bool = False) -> Counted | None:
        """Fold one event into its session, and collect it for its key values."""
        self._event_number += 1
        self._message_number = 0
        return super().feed(event, out, at_once=at_once)

    def _show_across(
        self,
        event: Event,
        session: Session,
        out: Findings,
        objections: Objections | None,
        groups: tuple[CrossSessionRules, ...],
    ) -> None:
        del out
        if groups is not self.engine.cross_session:
            return  # whoever gets the event runs all rules of its key over it
        for group in groups:
            key_id = group.key_id(event)
            if key_id is not None:
                content = event if group.index.plan(event) is not None else _without_content(event)
                self._message_number += 1
                position = (self._offset, self._event_number, self._message_number)
                self.outgoing.append((position, key_id, session.turns, sorted(session.memory), content))
            else:
                self.engine.count_keyless(group, event, session, objections)


def _without_content(event: Event) -> SessionEnd:
    return SessionEnd(
        session_id=event.session_id,
        event_id=event.event_id,
        time=event.time,
        run_id=event.run_id,
        agent=event.agent,
        labels=event.labels,
    )
