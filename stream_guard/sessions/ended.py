"""Sessions that a decision ended. They stay ended, also after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from stream_guard.model import RESERVED
from stream_guard.observability.counts import Counts
from stream_guard.ports import Store

_PREFIX: Final = f"{RESERVED}ended{RESERVED}"
_REASON: Final = 500  # characters of the reason that are kept
MOST: Final = 100_000


class CommittingStore(Store, Protocol):
    """A store that writes in commits."""

    def commit(self, meta: Mapping[str, bytes]) -> None:
        """Make what was put and dropped durable."""


def is_ended_row(name: str) -> bool:
    """Whether a row of a store records an ended session, and is not a session itself."""
    return name.startswith(_PREFIX)


class EndedSessions:
    """The ended sessions and their reasons, in a store and in memory.

    Beyond ``most``, the session that ended first is forgotten. That is counted, because the session could continue.
    """

    def __init__(self, store: CommittingStore, counts: Counts, most: int = MOST) -> None:
        self._store = store
        self._counts = counts
        self._most = most
        rows = [name for name, _ in store.deadlines() if is_ended_row(name)]
        # By session, to read: the gate looks here at every check. ``end`` writes, always to this dictionary.
        self.reasons = {name[len(_PREFIX) :]: (store.get(name) or b"").decode("utf-8", "replace") for name in rows}

    def __len__(self) -> int:
        return len(self.reasons)

    def reason(self, session_id: str) -> str | None:
        """Return why the session was ended, or None when it was not."""
        return self.reasons.get(session_id)

    def end(self, session_id: str, reason: str) -> None:
        """Record an end. It is durable after the store's next commit."""
        kept = reason[:_REASON]
        self.reasons[session_id] = kept
        self._store.put(_PREFIX + session_id, kept.encode("utf-8", "replace"), None)
        while len(self.reasons) > self._most:
            oldest = next(iter(self.reasons))
            del self.reasons[oldest]
            self._store.drop(_PREFIX + oldest)
            self._counts.evictions["ended_sessions"] += 1
