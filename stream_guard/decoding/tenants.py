"""Tenants in the names of sessions: events of two tenants under one session id are two sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from stream_guard.decoding.wrapping import WrappedDecoder
from stream_guard.judge.cross_session import TENANT
from stream_guard.judge.model import RESERVED, Event
from stream_guard.judge.shares import tenant_session
from stream_guard.ports import Decoder, Memory


class TenantDecoder(WrappedDecoder):
    """Puts the tenant, which a label of each event names, before the id of its session, and into the label ``tenant``.

    Keys, routes, incidents and the page go by that label. An event without a tenant cannot claim one by it.
    """

    def __init__(self, decoder: Decoder, label: str) -> None:
        super().__init__(decoder)
        self._label = label

    def around(self, decoder: Decoder) -> TenantDecoder:
        """Return the same around another decoder."""
        return TenantDecoder(decoder, self._label)

    def remember(self, memory: Memory) -> Decoder:
        """Let the decoder hold events back."""
        return super().remember(_TenantMemory(memory, self._place))

    def on_events(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events in the sessions of their tenants."""
        return [self._place(event) for event in events]

    def _place(self, event: Event) -> Event:
        if not event.session_id or event.session_id[0] == RESERVED:
            return event  # no session has such an id: the reader refuses it
        tenant = event.labels.get(self._label, "")
        session_id = tenant_session(tenant, event.session_id)
        if event.labels.get(TENANT, "") == tenant:
            return replace(event, session_id=session_id)
        others = {name: value for name, value in event.labels.items() if name != TENANT}
        return replace(event, session_id=session_id, labels={**others, TENANT: tenant} if tenant else others)


class _TenantMemory:
    """A memory that is told of events before they have their tenant."""

    def __init__(self, memory: Memory, place: Callable[[Event], Event]) -> None:
        self.get, self.put, self.drop, self.rows = memory.get, memory.put, memory.drop, memory.rows
        self.count_orphans = memory.count_orphans
        self._memory = memory
        self._place = place

    def part(self, name: str) -> _TenantMemory:
        """Return a memory of its own inside this one."""
        return _TenantMemory(self._memory.part(name), self._place)

    def note_origin(self, event: Event, origin: str, line: int) -> None:
        """Tell where the record stood that brought an event, in the session that the event has with its tenant."""
        self._memory.note_origin(self._place(event), origin, line)
