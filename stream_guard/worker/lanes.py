"""Sessions of tenants that are held back, beside those of all others: the same rows, another policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stream_guard.judge.clock import SharedClock
from stream_guard.judge.counts import Counts
from stream_guard.judge.identity import share_of, tenant_session
from stream_guard.judge.judge import Counted, Judge, Judged
from stream_guard.judge.model import Event, Finding
from stream_guard.settings import SessionLimits
from stream_guard.worker.rows import PartitionStore


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
