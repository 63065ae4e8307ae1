"""The sessions whose events are sent to rules that look across them."""

from __future__ import annotations

from typing import Any, TypeAlias

from stream_guard.engine.fold import Findings
from stream_guard.model import Event, SessionEnd
from stream_guard.sessions.session import Session
from stream_guard.sessions.table import SessionTable
from stream_guard.worker.rows import Place

SentEvent: TypeAlias = tuple[Place, str, int, list[int], Event]
"""Where it came from, the key value, and what its rules are shown: the session's turns and memory, and the event."""


class SendingTable(SessionTable):
    """Sessions whose events are sent to the rules that look across them, and not shown to those here."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.shown: list[SentEvent] = []
        self._offset = self._event = self._item = 0
        super().__init__(*args, **options)

    def begin(self, offset: int) -> None:
        """Hear from which record the next events are."""
        self._offset, self._event = offset, 0

    def pass_over(self) -> None:
        """Hear that an event of the record is not fed again: its session contains it already."""
        self._event += 1

    def feed(self, event: Event, out: Findings) -> None:
        """Fold one event into its session, and send it to the key states that it belongs to."""
        self._event += 1
        self._item = 0
        super().feed(event, out)

    def _show_across(self, event: Event, session: Session, out: Findings) -> None:
        del out
        for group in self.engine.cross_session:
            key_id = group.key_id(event)
            if key_id is not None:
                told = event if group.index.plan(event) is not None else _header(event)
                self._item += 1
                at = (self._offset, self._event, self._item)
                self.shown.append((at, key_id, session.turns, sorted(session.memory), told))


def _header(event: Event) -> SessionEnd:
    """Return what an event says of itself, without its content."""
    return SessionEnd(
        session_id=event.session_id,
        event_id=event.event_id,
        time=event.time,
        run_id=event.run_id,
        agent=event.agent,
        labels=event.labels,
    )
