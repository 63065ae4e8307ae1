"""Records whose keys are not their sessions' ids are re-keyed and evaluated once: the alerts are those of `check`."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from math import inf
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from stream_guard.alerting.delivery import Delivery
from stream_guard.asking.desk import JudgedAlerts
from stream_guard.commit import Commit
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding
from stream_guard.kafka.client import partition_of_key
from stream_guard.kafka.writer import Outgoing
from stream_guard.policy.load import load_policy
from stream_guard.ports import Decoder, Record
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.settings import SessionLimits, Settings
from stream_guard.worker.rekeying import RekeyedPartition, Rekeyer, StatelessDecoder
from stream_guard.worker.rows import PartitionStore
from stream_guard.worker.stages import TopicPartition
from tests.kafka.cluster import Row
from tests.worker.fleet import Fleet
from tests.worker.logs import MemoryLog, recover
from tests.worker.samples import checked, sample_rows

REKEYED = "rekeyed"


def by_customer(rows: list[Row]) -> list[Row]:
    """The records of a producer that uses customers as keys; each customer has five sessions."""
    return [row._replace(key=b"customer-%d" % (int((row.key or b"")[-5:]) // 5)) for row in rows]


class MemoryOutbox:
    """An outbox that keeps its records."""

    topic = "rekeyed"

    def __init__(self) -> None:
        self.records: list[Outgoing] = []

    async def send(self, records: dict[int, list[Outgoing]]) -> None:
        for listed in records.values():
            self.records += listed


class Lines(Decoder):
    """Reads records that hold several events, one on each line."""

    def __init__(self) -> None:
        self._decode = Assembly(Settings()).make_decoder("native").decode

    def decode(self, record: Record) -> list[Event]:
        return [event for line in record.value.splitlines() for event in self._decode(Record(line))]


def rekeyer(outbox: MemoryOutbox, counts: Counts, partitions: int = 1, clocks_every: float = inf) -> Rekeyer:
    alerts = JudgedAlerts(Delivery({}, counts))
    commit = Commit(alerts.keep, DeadLetters(None, counts, format_name="native"))
    table, _ = recover(MemoryLog())
    return Rekeyer(
        StatelessDecoder(Lines()),
        commit,
        outbox,  # type: ignore[arg-type]  # a double
        table,
        partitions=partitions,
        counts=counts,
        clocks_every=clocks_every,
    )


def give(stage: Rekeyer, number: int, values: list[bytes], first: int = 0) -> None:
    """Give a rekeyer records of a partition."""
    records = [Record(value, f"events/{number}", first + place) for place, value in enumerate(values)]
    asyncio.run(stage.process({TopicPartition("events", number): records}, lambda _: None))


def open_partition(rows: dict[bytes, bytes], policy: Path, now: Callable[[], float] = time.time) -> RekeyedPartition:
    counts = Counts()
    judge = Judge(load_policy(policy, build_registry()), mode="stream", counts=counts)
    letters = DeadLetters(None, counts, format_name="native")
    return RekeyedPartition(
        PartitionStore(0, rows), judge, StatelessDecoder(Lines()), letters, SessionLimits(), now=now
    )


def fold(rows: dict[bytes, bytes], policy: Path, rekeyed: list[Outgoing], dice: random.Random) -> set[str]:
    """Fold re-keyed records, with crashes after which only some of the rows are written."""
    found: list[Finding] = []
    records = [
        Record(one.value, "rekeyed/0", at, key=one.key, headers=tuple(one.headers)) for at, one in enumerate(rekeyed)
    ]
    durable = 0
    while durable < len(records):
        partition, at = open_partition(rows, policy), durable
        while at < len(records):
            batch = records[at : at + dice.randint(1, 80)]
            partition.fold(REKEYED, batch, found)
            changes = partition.snapshot()
            crash = dice.random() < 0.2
            for key, value in changes[: dice.randint(0, len(changes))] if crash else changes:
                rows.update({key: value}) if value is not None else rows.pop(key, None)
            if crash:
                break
            at = durable = batch[-1].position + 1
    return {finding.alert_id for finding in found}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_records_that_are_rekeyed_again_after_a_crash_are_folded_once(policy: Path, seed: int) -> None:
    dice, counts, outbox = random.Random(seed), Counts(), MemoryOutbox()
    rows = by_customer(sample_rows(60))
    # Two source partitions. A re-keyer that crashes starts again at its committed offset.
    for number in (0, 1):
        values = [row.value or b"" for row in rows if partition_of_key(row.key or b"", 2) == number]
        committed, crashed = 0, False
        while committed < len(values):
            stage = rekeyer(outbox, counts)
            at = committed
            while at < len(values):
                give(stage, number, values[at : at + 40], at)
                crashed = not crashed and dice.random() < 0.5
                if crashed:
                    break
                at += 40
                if dice.random() < 0.5:
                    committed = at
    assert len(outbox.records) > len(rows), "some were re-keyed twice"
    assert fold({}, policy, outbox.records, dice) == set(checked(rows, policy))


def test_a_record_of_several_sessions_reaches_each_of_them_once(policy: Path) -> None:
    counts, outbox, rows = Counts(), MemoryOutbox(), sample_rows(30)
    values = [b"\n".join(row.value or b"" for row in rows[at : at + 7]) for at in range(0, len(rows), 7)]
    give(rekeyer(outbox, counts), 0, values)
    assert len(outbox.records) > len(values)
    assert fold({}, policy, outbox.records, random.Random(1)) == set(checked(rows, policy))


@pytest.mark.parametrize("value", [b"{broken", b'{"kind": "user_message", "session_id": ""}'])
def test_a_record_that_cannot_be_rekeyed_is_a_dead_letter(value: bytes) -> None:
    counts, outbox = Counts(), MemoryOutbox()
    give(rekeyer(outbox, counts), 0, [value, b'{"kind": "user_message", "session_id": "s"}'])
    assert counts.dead_letters["decode"] == 1
    assert [record.key for record in outbox.records] == [b"s"]


def test_a_record_that_no_worker_wrote_is_a_dead_letter(policy: Path) -> None:
    partition, found = open_partition({}, policy), list[Finding]()
    forged: Any = [Record(b'{"kind": "user_message", "session_id": "s"}', "rekeyed/0", 0, headers=(("x", b"y"),))]
    partition.fold(REKEYED, forged, found)
    assert len(partition.snapshot()) == 1, "there is no session, only the progress row"


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 3])
def test_alerts_of_records_under_other_keys_are_those_of_check(fleet: Fleet, policy: Path, workers: int) -> None:
    policy.write_text(policy.read_text().replace("idle: 30m", "idle: 90d"))
    rows = by_customer(sample_rows(300))
    poison = Row(b"{broken", b"customer-1")
    fleet.cluster.fill(fleet.events, [*rows, poison])
    for _ in range(workers):
        fleet.start(options=("--no-serve", "--rekey"))
    fleet.wait_for_all(REKEYED)
    assert {alert["id"]: alert["data"]["rule_id"] for alert in fleet.sent()} == checked(rows, policy)
    ((origin, _),) = fleet.dead_letters()
    assert origin.startswith(f"{fleet.events}/"), "a dead letter has the producer's topic"


@pytest.mark.kafka
@pytest.mark.long
def test_killed_workers_rekey_records_again_and_no_event_counts_twice(fleet: Fleet, policy: Path) -> None:
    policy.write_text(policy.read_text().replace("idle: 30m", "idle: 90d"))
    rows, dice = by_customer(sample_rows(1_000, open_every=2)), random.Random(3)
    names = [fleet.start(options=("--no-serve", "--rekey")) for _ in range(3)]
    step = len(rows) // 4
    for number in range(4):
        filling = Thread(target=fleet.cluster.fill, args=(fleet.events, rows[number * step : (number + 1) * step]))
        filling.start()
        time.sleep(dice.uniform(0.3, 1.0))  # the random moment
        name = dice.choice(names)
        fleet.kill(name)
        fleet.start(name, options=("--no-serve", "--rekey"))
        filling.join()
    fleet.cluster.fill(fleet.events, rows[4 * step :])
    fleet.wait_for_all(REKEYED)
    sent = Counter(json.loads(row.value or b"")["session_id"] for row in rows)
    sessions = fleet.sessions()
    assert len(sessions) >= 500
    assert {name: one["seq"] for name, one in sessions.items()} == {name: sent[name] for name in sessions}
    assert len(fleet.cluster.read(f"{fleet.group}-{REKEYED}")) >= len(rows)
    wanted = checked(rows, policy)
    found = {alert["id"]: alert["data"]["rule_id"] for alert in fleet.sent()}
    assert found.items() <= wanted.items()
    late = {alert for alert, rule in wanted.items() if alert not in found}
    assert {wanted[alert] for alert in late} <= {"confirm-after-quote", "large-refunds-name-the-policy"}, (
        "only findings of session ends are missing"
    )
