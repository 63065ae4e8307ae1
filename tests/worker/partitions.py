"""A partition that tests open and crash. The next one has only the rows that reached the table."""

from __future__ import annotations

import random
from collections.abc import Callable

from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding
from stream_guard.judge.spec import Policy
from stream_guard.ports import Record
from stream_guard.running.assembly import Assembly
from stream_guard.settings import SessionLimits, Settings
from stream_guard.worker.partition import SessionPartition
from stream_guard.worker.rows import PartitionStore, RowChange

Rows = dict[bytes, bytes]


def open_partition(
    rows: Rows,
    policy: Policy,
    form: str,
    now: Callable[[], float] = lambda: 0.0,
    limits: SessionLimits | None = None,
    receiver: Callable[[], float] | None = None,
) -> SessionPartition:
    """Return a partition over what its table holds."""
    counts = Counts()
    decoder = Assembly(Settings()).make_decoder(form)
    letters = DeadLetters(None, counts, format_name=form)
    judge = Judge(policy, mode="stream", counts=counts)
    store, limits = PartitionStore(0, rows), limits or SessionLimits()
    return SessionPartition(store, judge, decoder, letters, limits, now=now, receiver=receiver)


def write(rows: Rows, changes: list[RowChange]) -> None:
    """Bring changes into the table."""
    for key, value in changes:
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value


def fold_with_crashes(
    open_again: Callable[[], SessionPartition],
    rows: Rows,
    given: list[Record],
    dice: random.Random,
    *,
    batch: int,
    back: int,
) -> tuple[list[Finding], int]:
    """Return the findings, and the number of crashes. A crash leaves some of the rows of its batch.

    A batch has up to ``batch`` records; after a crash up to ``back`` of the durable ones are delivered again.
    """
    found: list[Finding] = []
    topic = given[0].origin.rpartition("/")[0]
    durable = crashes = 0
    while durable < len(given):
        partition, at = open_again(), dice.randint(max(0, durable - back), durable)
        while at < len(given):
            taken = given[at : at + dice.randint(1, batch)]
            partition.fold(topic, taken, found)
            changes = partition.snapshot()
            if crashes < 30 and dice.random() < 0.4:
                write(rows, changes[: dice.randint(0, len(changes))])
                crashes += 1
                break
            write(rows, changes)
            at = durable = taken[-1].position + 1
    return found, crashes
