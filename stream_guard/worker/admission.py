"""What a partition looks at before an event is judged: whether its session contains it, and under which key it came."""

from __future__ import annotations

from typing import Final

from stream_guard.judge.identity import BETWEEN
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding
from stream_guard.ports import Record
from stream_guard.worker.cross_session.outgoing import OutgoingEvents
from stream_guard.worker.rows import PartitionStore

_BETWEEN: Final = BETWEEN.encode()


class PartitionAdmission:
    """Admits the events of a partition's records that no session contains, one topic at a time."""

    def __init__(
        self, store: PartitionStore, judge: Judge, outgoing: OutgoingEvents | None, *, has_tenants: bool
    ) -> None:
        self._store = store
        self._judge = judge
        self._outgoing = outgoing
        self._has_tenants = has_tenants
        self._tag = self._horizon = -1
        self.session_of: dict[int, str] = {}  # by offset: whose events a record was passed on for; the others are not
        self.redelivered = 0
        self.foreign_keys = 0  # events whose record has a key that is not their session's id

    def open(self, tag: int) -> None:
        """Set the topic of the next records."""
        self._tag, self._horizon = tag, self._store.horizon.get(tag, -1)

    def begin(self, record: Record) -> None:
        """Take note that the next events are those of a record."""
        if self._outgoing is not None:
            self._outgoing.begin_record(record.position)

    def admits(self, event: Event, record: Record, out: list[Finding]) -> bool:
        """Whether an event is to be judged; the clock follows one that its session contains already."""
        session_id, position = event.session_id, record.position
        if self.session_of and self.session_of.get(position, session_id) != session_id:
            return False
        if self._outgoing is not None:
            self._outgoing.begin_event()
        if position <= self._horizon and self._store.has_applied(session_id, self._tag, position):
            self.redelivered += 1
            out += self._judge.follow(event)
            return False
        if record.key is not None and not self._is_key_of(record.key, session_id):
            self.foreign_keys += 1
        return True

    def _is_key_of(self, key: bytes, session_id: str) -> bool:
        """Whether a record's key is its session's id, as producers know it or with the tenant before it."""
        name = session_id.encode() if session_id.isascii() else session_id.encode("utf-8", "surrogatepass")
        return name == key or (self._has_tenants and name.endswith(_BETWEEN + key))
