"""Sessions of tenants that are held back, beside those of all others: the same rows, another policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stream_guard.judge.clock import SharedClock
from stream_guard.judge.counts import Counts
from stream_guard.judge.findings import Findings
from stream_guard.judge.fold import Engine
from stream_guard.judge.identity import share_of, tenant_session
from stream_guard.judge.model import Event
from stream_guard.judge.table import SessionTable
from stream_guard.judge.tracker import Counted
from stream_guard.settings import SessionLimits
from stream_guard.worker.rows import PartitionStore


def by_share(held: Mapping[str, Engine]) -> dict[str, Engine]:
    """Return the engines of tenants by what the ids of their sessions begin with."""
    return {share_of(tenant_session(tenant, "-")): engine for tenant, engine in held.items()}


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


class TenantLanes(SessionTable):
    """The sessions of everybody but the tenants that are held back, and a table for each of those, under one clock."""

    def __init__(
        self,
        store: PartitionStore,
        engine: Engine,
        held: Mapping[str, Engine],
        counts: Counts,
        limits: SessionLimits,
        clock: SharedClock,
    ) -> None:
        engines = by_share(held)
        self._held = {
            share: SessionTable(own, LaneStore(store, frozenset((share,)), owns=True), counts, limits, clock=clock)
            for share, own in engines.items()
        }
        super().__init__(engine, LaneStore(store, frozenset(engines), owns=False), counts, limits, clock=clock)

    def feed(self, event: Event, out: Findings, *, at_once: bool = False) -> Counted | None:
        """Fold one event into its session, by the policy of its tenant; the others follow the clock."""
        own = self._held.get(share_of(event.session_id))
        if own is None:
            counted = super().feed(event, out, at_once=at_once)
        else:
            counted = own.feed(event, out, at_once=at_once)
            self.catch_up(out)
        self._catch_up_held(out)
        return counted

    def follow(self, event: Event, out: Findings) -> None:
        """Let the shared clock follow an event that its session contains already."""
        super().follow(event, out)
        self._catch_up_held(out)

    def _catch_up_held(self, out: Findings) -> None:
        for lane in self._held.values():
            lane.catch_up(out)

    def advance(self, watermark: float, out: Findings) -> None:
        """Set the watermark: fire the deadlines it has passed, and close idle sessions."""
        super().advance(watermark, out)
        for lane in self._held.values():
            lane.advance(watermark, out)

    @property
    def changed(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._touched) or self.memory.changed or any(lane.changed for lane in self._held.values())

    def commit(self) -> None:
        """Put every changed session into the store."""
        super().commit()
        for lane in self._held.values():
            lane.commit()
