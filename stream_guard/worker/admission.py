"""What a partition looks at before an event is judged: whether its session contains it, and under which key it came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Final, TypeAlias

from stream_guard.judge.clock import SharedClock
from stream_guard.judge.counts import Counts
from stream_guard.judge.identity import BETWEEN, share_of, tenant_session
from stream_guard.judge.judge import Counted, Judge, Judged
from stream_guard.judge.model import Event, Finding, SessionEnd
from stream_guard.ports import Record
from stream_guard.settings import SessionLimits
from stream_guard.worker.rows import EventPosition, PartitionStore

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
            out += self._judge.follow(event)
            return False
        if record.key is not None and not self._is_key_of(record.key, session_id):
            self.foreign_keys += 1
        return True

    def _is_key_of(self, key: bytes, session_id: str) -> bool:
        """Whether a record's key is its session's id, as producers know it or with the tenant before it."""
        name = session_id.encode() if session_id.isascii() else session_id.encode("utf-8", "surrogatepass")
        return name == key or (self._has_tenants and name.endswith(_BETWEEN + key))


# Sessions of tenants that are held back, beside those of all others: the same rows, another policy.


def by_share(held: Mapping[str, Judge]) -> dict[str, Judge]:
    """Return the judges of tenants by what the ids of their sessions begin with."""
    return {share_of(tenant_session(tenant, "-")): judge for tenant, judge in held.items()}


class LaneStore:
    """The rows of some tenants, or of all others, in the store of a partition.

    A row stays where it is when its tenant is let go.
    """

    def __init__(self, store: PartitionStore, shares: frozenset[str], *, owns: bool) -> None:
        self._store = store
        self._shares = shares
        self._owns = owns

    def get(self, session_id: str) -> bytes | None:
        """Return what was put last, or None."""
        return self._store.get(session_id)

    def put(self, session_id: str, blob: bytes, deadline: float | None) -> None:
        """Keep the blob."""
        self._store.put(session_id, blob, deadline)

    def drop(self, session_id: str) -> None:
        """Forget the session."""
        self._store.drop(session_id)

    def deadlines(self) -> Iterator[tuple[str, float | None]]:
        """Yield the sessions of these tenants with their deadlines."""
        for session_id, deadline in self._store.deadlines():
            if (share_of(session_id) in self._shares) is self._owns:
                yield session_id, deadline


class TenantLanes(Judge):
    """The sessions of everybody but the tenants that are held back, and a judge for each of those, under one clock."""

    def __init__(
        self,
        store: PartitionStore,
        judge: Judge,
        held: Mapping[str, Judge],
        counts: Counts,
        limits: SessionLimits,
        clock: SharedClock,
    ) -> None:
        lenders = by_share(held)
        self._held = {
            share: Judge(
                own, limits, store=LaneStore(store, frozenset((share,)), owns=True), counts=counts, clock=clock
            )
            for share, own in lenders.items()
        }
        others = LaneStore(store, frozenset(lenders), owns=False)
        super().__init__(judge, limits, store=others, counts=counts, clock=clock)

    def feed(self, event: Event) -> Judged:
        """Judge one event by the policy of its tenant; the others follow the clock."""
        own = self._held.get(share_of(event.session_id))
        judged = super().feed(event) if own is None else own.feed(event)
        found = [*judged.findings, *self.advance(self.watermark)]
        if not isinstance(judged, Counted):
            return Judged(found)
        judged.findings = found
        return judged

    def follow(self, event: Event) -> list[Finding]:
        """Let the shared clock follow an event that its session contains already."""
        return [*super().follow(event), *self.advance(self.watermark)]

    def advance(self, time: float) -> list[Finding]:
        """Judge what has passed by a time without an event, by all policies."""
        found = super().advance(time)
        for lane in self._held.values():
            found += lane.advance(time)
        return found

    @property
    def changed(self) -> bool:
        """Whether there is something to commit."""
        return super().changed or any(lane.changed for lane in self._held.values())

    def commit(self) -> None:
        """Put every changed session into the store."""
        super().commit()
        for lane in self._held.values():
            lane.commit()
