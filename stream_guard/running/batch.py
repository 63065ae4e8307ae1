"""Batch: recorded sessions through the same rules."""

from __future__ import annotations

from collections.abc import Iterable

from stream_guard.model import Event, Finding
from stream_guard.observability.counts import Counts
from stream_guard.pipeline import open_table
from stream_guard.policy.spec import Policy


def evaluate(events: Iterable[Event], policy: Policy, *, counts: Counts | None = None) -> list[Finding]:
    """Return everything the policy finds in the events. Sessions may be mixed; the end of the input ends them."""
    table = open_table(policy, counts)
    found: list[Finding] = []
    for event in events:
        table.feed(event, found)
    table.end_all(found)
    return found
