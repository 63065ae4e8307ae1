"""Inline: the same rules, asked before a tool runs."""

from __future__ import annotations

from operator import itemgetter
from threading import Lock
from typing import Final

from stream_guard.counts import Counts
from stream_guard.engine import Engine
from stream_guard.model import Action, Decision, Event, Finding, ToolCall, Turn
from stream_guard.policy.spec import Policy
from stream_guard.ports import Store
from stream_guard.sessions.stores import MemoryStore
from stream_guard.sessions.table import SessionTable
from stream_guard.settings import Sessions as Limits

_ANNOUNCED: Final = 4096  # attempts with findings that wait for their call


class Guard:
    """Watches an agent from inside its process. Safe to call from many threads; state is bounded."""

    def __init__(
        self,
        policy: Policy,
        *,
        store: Store | None = None,
        counts: Counts | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.counts = counts if counts is not None else Counts()
        limits = limits or Limits()
        self._policy = policy
        self._engine = Engine(policy, self.counts, mode="inline", max_states=limits.max_states)
        self._table = SessionTable(self._engine, store or MemoryStore(), self.counts, limits, shared_clock=False)
        self._lock = Lock()
        self._announced: dict[tuple[str, int], list[Finding]] = {}  # what was found at a turn's tool-use blocks

    def observe(self, event: Event) -> list[Finding]:
        """Tell the guard what happened (a turn, a result, a user's message); return what rules say of it."""
        with self._lock:
            return self._feed(event)

    def end_all(self) -> list[Finding]:
        """Tell the guard that no more events will come: every open session is judged."""
        found: list[Finding] = []
        with self._lock:
            self._table.end_all(found)
        return found

    def check(self, attempt: ToolCall) -> Decision:
        """Decide on a tool call before it runs: the strictest action that a matching rule asks for.

        A call that its turn announced was judged then; the decision rests on what was found.
        """
        with self._lock:
            self._engine.raised.clear()
            found = self._feed(attempt)
            found += self._announced.pop((attempt.session_id, attempt.attempt), [])
            closed = [self._policy.rules[number] for number in self._engine.raised]
        asked = [(finding.then, finding.reason or finding.detail) for finding in found if not finding.shadow]
        # A gate that cannot judge stays shut where the rule says so (ADR 0007).
        asked += [(spec.then, "the rule could not judge") for spec in closed if spec.on_error == "closed"]
        actions = [(action, reason) for action, reason in asked if action is not None]
        action, reason = max(actions, key=itemgetter(0), default=(Action.ALLOW, ""))
        return Decision(action=action, findings=tuple(found), reason=reason, policy_version=self._policy.version)

    def _feed(self, event: Event) -> list[Finding]:
        found: list[Finding] = []
        self._table.feed(event, found)
        if isinstance(event, Turn):
            for finding in found:
                if finding.attempt >= 0:
                    self._announced.setdefault((finding.session_id, finding.attempt), []).append(finding)
            while len(self._announced) > _ANNOUNCED:
                del self._announced[next(iter(self._announced))]
        return found
