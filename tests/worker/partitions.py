"""A partition that tests open and crash: what reached its table is all that the next one finds."""

from __future__ import annotations

import random
from collections.abc import Callable

from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.engine import Engine
from stream_guard.model import Finding
from stream_guard.observability.counts import Counts
from stream_guard.policy.spec import Policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.running.assembly import make_decoder
from stream_guard.settings import SessionLimits, Settings
from stream_guard.worker.partition import Partition
from stream_guard.worker.store import Change, PartitionStore

Rows = dict[bytes, bytes]


def open_partition(rows: Rows, policy: Policy, form: str, now: Callable[[], float] = lambda: 0.0) -> Partition:
    """Return a partition over what its table holds."""
    counts = Counts()
    decoder = make_decoder(form, build_registry(), Settings())
    letters = DeadLetters(None, counts, format_name=form)
    engine = Engine(policy, counts, mode="stream")
    return Partition(PartitionStore(0, rows), engine, decoder, letters, SessionLimits(), now=now)


def write(rows: Rows, changes: list[Change]) -> None:
    """Bring changes into the table."""
    for key, value in changes:
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value


def judge_with_crashes(
    open_again: Callable[[], Partition], rows: Rows, given: list[Record], dice: random.Random, *, batch: int, back: int
) -> tuple[list[Finding], int]:
    """Return what was found, and how many crashes there were: each leaves some of the rows of its batch.

    A batch has up to ``batch`` records; after a crash up to ``back`` of those that were settled come again.
    """
    found: list[Finding] = []
    topic = given[0].origin.rpartition("/")[0]
    settled = crashes = 0
    while settled < len(given):
        partition, at = open_again(), dice.randint(max(0, settled - back), settled)
        while at < len(given):
            taken = given[at : at + dice.randint(1, batch)]
            partition.fold(topic, taken, found)
            changes = partition.seal()
            if crashes < 30 and dice.random() < 0.4:
                write(rows, changes[: dice.randint(0, len(changes))])
                crashes += 1
                break
            write(rows, changes)
            at = settled = taken[-1].position + 1
    return found, crashes
