"""Cost per event as sessions grow: it must not depend on how long a session is."""

from __future__ import annotations

from typing import Any

import msgspec

from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding
from stream_guard.registry import Registry
from stream_guard.storage.stores import MemoryStore
from tests.bench.measure import Work, best_of
from tests.bench.workload import long_session_lines, policy

LENGTHS = (10, 100, 1_000, 10_000)
EVENTS = 20_000


def measure(registry: Registry) -> dict[str, Any]:
    """Return microseconds per event for sessions of several lengths, with 50 rules, and the ratio of the extremes."""
    rules = policy(50, registry)
    decode = msgspec.json.Decoder(Event).decode

    def contender(length: int) -> Work:
        lines = list(long_session_lines(length, EVENTS // length))

        def work() -> None:
            counts, found = Counts(), list[Finding]()
            table = Judge(rules, mode="stream", store=MemoryStore(), counts=counts)
            for line in lines:
                found += table.feed(decode(line)).findings

        return work

    least = best_of({str(length): contender(length) for length in LENGTHS})
    rows = {length: seconds / EVENTS * 1e6 for length, seconds in least.items()}
    return {"us_per_event": rows, "longest_to_shortest": rows["10000"] / rows["10"]}
