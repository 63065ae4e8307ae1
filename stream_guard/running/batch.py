"""Batch: recorded sessions through the same rules."""

from __future__ import annotations

from collections.abc import Iterable

from stream_guard.engine import Engine
from stream_guard.model import Event, Finding
from stream_guard.observability.counts import Counts
from stream_guard.policy.spec import Policy
from stream_guard.ports import Store
from stream_guard.sessions.table import SessionTable
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import MemoryStore


def open_table(
    policy: Policy, counts: Counts | None = None, limits: SessionLimits | None = None, store: Store | None = None
) -> SessionTable:
    """Return a session table for recorded events: each session goes by its own clock."""
    counts = counts if counts is not None else Counts()
    limits = limits or SessionLimits()
    engine = Engine(policy, counts, mode="batch", max_states=limits.max_states)
    return SessionTable(engine, store or MemoryStore(), counts, limits, shared_clock=False)


def evaluate(events: Iterable[Event], policy: Policy, *, counts: Counts | None = None) -> list[Finding]:
    """Return everything the policy finds in the events; sessions may be mixed, and end where the input ends."""
    table = open_table(policy, counts)
    found: list[Finding] = []
    for event in events:
        table.feed(event, found)
    table.end_all(found)
    return found
