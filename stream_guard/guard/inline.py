"""Inline: the same rules, asked in the agent's process before a tool runs."""

from __future__ import annotations

import asyncio
from threading import Lock
from typing import Final, NamedTuple

from msgspec.structs import replace

from stream_guard.guard.decisions import Decider, decision_event
from stream_guard.language.paths import json_equal
from stream_guard.model import Action, Decision, Event, Finding, Json, ToolCall, Turn
from stream_guard.observability.counts import Counts
from stream_guard.pipeline import open_table
from stream_guard.policy.spec import Policy
from stream_guard.sessions.ended import CommittingStore, EndedSessions
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import MemoryStore

_ANNOUNCED: Final = 4096  # attempts with findings that wait for their call
_REFUSALS: Final = 4096  # refused attempts whose call may be asked about again
_ANSWERS: Final = 256  # attempts that may be asked about again under the id of their event
_SAVE_EVERY: Final = 1024  # events between two times that the store is brought up to date


class _Answer(NamedTuple):
    """A decision that was given under the id of an event, and the attempt it was about."""

    tool: str
    args: Json
    decision: Decision


class Guard:
    """Decides on an agent's tool calls inside its process. Safe to call from many threads; memory is bounded.

    With a ``store``, sessions survive a restart. An ended session is stored before the decision that ends it is
    returned; the others every so many events, and when ``commit`` is called.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        store: CommittingStore | None = None,
        counts: Counts | None = None,
        limits: SessionLimits | None = None,
    ) -> None:
        self.counts = counts if counts is not None else Counts()
        self._store = store if store is not None else MemoryStore()
        self._is_kept = store is not None
        self._table = open_table(policy, self.counts, limits, self._store, mode="inline")
        self._engine = self._table.engine
        self._decider = Decider(policy)
        self._ended = EndedSessions(self._store, self.counts)
        self._policy = policy
        self._lock = Lock()
        self._unsaved = 0
        self._announced: dict[tuple[str, int], list[Finding]] = {}  # what was found at a turn's tool-use blocks
        self._refusals: dict[tuple[str, int], Decision] = {}  # by the number of the attempt
        self._answers: dict[tuple[str, str], _Answer] = {}  # by the id of the event

    def observe(self, event: Event) -> list[Finding]:
        """Fold an event that has happened (a turn, a result, a user's message); return the findings."""
        with self._lock:
            return self._feed(event)

    def end_all(self) -> list[Finding]:
        """End every open session, and return what rules find at the end: no more events will come."""
        found: list[Finding] = []
        with self._lock:
            self._table.end_all(found)
        return found

    def check(self, attempt: ToolCall) -> Decision:
        """Decide on a tool call before it runs: the strictest action that a matching rule asks for.

        A call that its turn announced was judged with the turn; the decision rests on those findings. An attempt
        that was refused is refused again. Once a session has ended, every attempt in it is refused.
        """
        with self._lock:
            decision, is_new_end = self._decide(attempt)
            if is_new_end:
                self._store.commit({})  # before the caller acts on it: an ended session stays ended after a crash
        return decision

    async def acheck(self, attempt: ToolCall) -> Decision:
        """Decide as ``check`` does; the event loop does not wait while the end of a session is stored."""
        with self._lock:
            decision, is_new_end = self._decide(attempt)
        if is_new_end and self._is_kept:
            await asyncio.to_thread(self._write)
        return decision

    def commit(self) -> None:
        """Write every session to the store."""
        with self._lock:
            self._save()

    def _write(self) -> None:
        with self._lock:
            self._store.commit({})

    def _save(self) -> None:
        self._table.commit()
        self._store.commit({})
        self._unsaved = 0

    def _decide(self, attempt: ToolCall) -> tuple[Decision, bool]:
        """Return the decision, and whether it ends a session that was open."""
        engine, counts = self._engine, self.counts
        engine.raised.clear()
        engine.cooling.clear()
        key = (attempt.session_id, attempt.event_id)
        duplicates, merged = counts.duplicate_events, counts.merged_calls
        found = list[Finding]()
        self._table.feed_now(attempt, found)
        if counts.duplicate_events > duplicates:
            known = self._answers.get(key)
            if known is not None and known.tool == attempt.tool and json_equal(known.args, attempt.args):
                return self._unless_ended(attempt, known.decision), False
            # Another attempt under an id that was used before is judged as an attempt of its own.
            attempt = replace(attempt, event_id="")
            self._table.feed_now(attempt, found)
        self._tidy()
        if counts.merged_calls > merged:
            refusal = self._refusals.get((attempt.session_id, attempt.attempt))
            if refusal is not None:
                return refusal, False
        found += self._announced.pop((attempt.session_id, attempt.attempt), [])
        decision = self._decider.decide(attempt, found, engine.raised, engine.cooling)
        if engine.raised and decision.action is Action.ALLOW:
            counts.fail_open += 1
        is_new_end = decision.session_ended and self._ended.reason(attempt.session_id) is None
        if is_new_end:
            self._ended.end(attempt.session_id, decision.reason)
        else:
            decision = self._unless_ended(attempt, decision)
        if decision.action is not Action.ALLOW:
            self._refuse(attempt, decision)
        if key[1]:
            self._answers[key] = _Answer(attempt.tool, attempt.args, decision)
            if len(self._answers) > _ANSWERS:
                del self._answers[next(iter(self._answers))]
        return decision, is_new_end

    def _unless_ended(self, attempt: ToolCall, decision: Decision) -> Decision:
        """Return the decision, or a refusal when the session was ended before."""
        ended = self._ended.reason(attempt.session_id)
        if ended is None:
            return decision
        reason = f"the session was ended: {ended}"
        return replace(decision, action=Action.TERMINATE_SESSION, reason=reason, session_ended=True)

    def _refuse(self, attempt: ToolCall, decision: Decision) -> None:
        """Remember the refusal, and fold it into the rules' states: a blocked confirmation confirms nothing."""
        self._refusals[attempt.session_id, attempt.attempt] = decision
        while len(self._refusals) > _REFUSALS:
            del self._refusals[next(iter(self._refusals))]
        rules = [finding.rule_id for finding in decision.findings]
        self._table.feed_now(decision_event(attempt, decision.action, rules), [])

    def _feed(self, event: Event) -> list[Finding]:
        found: list[Finding] = []
        self._table.feed(event, found)
        if isinstance(event, Turn):
            for finding in found:
                if finding.attempt >= 0:
                    self._announced.setdefault((finding.session_id, finding.attempt), []).append(finding)
            while len(self._announced) > _ANNOUNCED:
                del self._announced[next(iter(self._announced))]
        self._tidy()
        return found

    def _tidy(self) -> None:
        """Every so many events, commit the sessions and move those that are too many out of memory."""
        self._unsaved += 1
        if self._unsaved >= _SAVE_EVERY:
            self._table.commit_if_full()
            self._unsaved = 0
            if self._is_kept:
                self._save()
