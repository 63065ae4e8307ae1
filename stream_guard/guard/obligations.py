"""Open obligations: what rules would find if a session ended now, asked of a copy."""

from __future__ import annotations

from stream_guard.judge.counts import Counts
from stream_guard.judge.fold import Engine
from stream_guard.judge.model import Finding, SessionEnd
from stream_guard.judge.rows import pack
from stream_guard.judge.spec import Policy
from stream_guard.judge.table import SessionTable
from stream_guard.storage.stores import MemoryStore


class EndPreview:
    """Ends copies of sessions. Neither the sessions nor the counters of their table change."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._engine = Engine(policy, Counts(), mode="inline")

    def open_obligations(self, table: SessionTable, session_id: str) -> list[Finding]:
        """Return what each rule would find at the end; nothing for a session that is closed already.

        A session that the table does not know has done nothing yet. Rules in shadow mode hold nobody up, and a
        cooldown keeps no obligation back.
        """
        copy = table.copy_of(session_id)
        store = MemoryStore()
        if copy is not None:
            if copy.resting:
                return []
            for slot in copy.slots.values():
                slot.last = None
            store.put(session_id, pack(copy, self._engine), None)
        found: list[Finding] = []
        scratch = SessionTable(self._engine, store, Counts(), table.limits, shared_clock=False)
        scratch.feed_now(SessionEnd(session_id=session_id), found)
        return [finding for finding in found if finding.at == "end" and not finding.shadow]
