"""Shares of tenants in the sessions that are kept: when there are too many, the tenant with the most gives one up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stream_guard.judge.index import TENANT
from stream_guard.judge.model import RESERVED, Event

_WITHOUT_TENANT: Final = 2
BETWEEN: Final = "/"  # stands between a tenant and the id of its session


def tenant_session(tenant: str, session_id: str) -> str:
    """Return the name of a tenant's session. No two pairs of tenant and id have the same name."""
    if tenant:
        return f"{_escaped(tenant)}{BETWEEN}{session_id}"
    # Without a tenant, an id that could be taken for a tenant's session is that of nobody's.
    return f"{BETWEEN}{session_id}" if BETWEEN in session_id else session_id


def _escaped(tenant: str) -> str:
    return tenant.replace("%", "%25").replace(BETWEEN, "%2F")


def share_of(key_id: str) -> str:
    """Return the share that a session, or a value of a key, belongs to by its id: its tenant's; empty for nobody's."""
    if key_id[:1] == RESERVED:
        # A key stands between two such characters, then its values, and behind a third the tenant, if there is one.
        return _escaped(key_id.rpartition(RESERVED)[2]) if key_id.count(RESERVED) > _WITHOUT_TENANT else ""
    return key_id.partition(BETWEEN)[0] if BETWEEN in key_id else ""


class TenantShares:
    """The ids of all sessions that are kept, by tenant, those that came first in front."""

    __slots__ = ("_by_size", "_ids", "_most")

    def __init__(self) -> None:
        self._ids: dict[str, dict[str, None]] = {}
        # Tenants by how many sessions they have, so that the largest is found at once, however many there are.
        self._by_size: dict[int, dict[str, None]] = {0: {}}
        self._most = 0

    def add(self, key_id: str, event: Event | None = None) -> None:
        """Count a session to its tenant's share. An event that does not name the tenant of its id has none."""
        share = share_of(key_id)
        if share and event is not None and _escaped(event.labels.get(TENANT, "")) != share:
            share = ""
        ids = self._ids.setdefault(share, {})
        ids[key_id] = None
        self._resize(share, len(ids) - 1, len(ids))

    def remove(self, key_id: str) -> None:
        """Count a session no longer."""
        for share in (share_of(key_id), ""):
            ids = self._ids.get(share)
            if ids is not None and key_id in ids:
                del ids[key_id]
                self._resize(share, len(ids) + 1, len(ids))
                if not ids:
                    del self._ids[share]
                return

    def largest(self, newest: str) -> Iterator[str]:
        """Yield the ids of the tenant that has the most sessions; of two alike, of that which brings the newest."""
        alike, own = self._by_size[self._most], share_of(newest)
        yield from self._ids.get(own if own in alike else next(iter(alike), ""), ())

    def _resize(self, share: str, before: int, after: int) -> None:
        if before:
            del self._by_size[before][share]
        if after:
            self._by_size.setdefault(after, {})[share] = None
        self._most = max(self._most, after)
        while self._most and not self._by_size[self._most]:
            del self._by_size[self._most]
            self._most -= 1
