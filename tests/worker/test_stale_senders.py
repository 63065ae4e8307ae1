"""A partition of which all stamps are old: rules that look across sessions wait for it for a while, and no longer."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from math import inf
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaProducer

from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding, ToolCall
from stream_guard.kafka.client import partition_of_key
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.settings import SessionLimits
from stream_guard.worker.cross_session import (
    ClockMessage,
    EventMessage,
    FurthestWatermarks,
    ReceivingPartition,
    encode_message,
)
from stream_guard.worker.rows import KEY_STATES, PartitionStore
from tests.worker.fleet import Fleet
from tests.worker.partitions import Rows, write
from tests.worker.samples import as_row
from tests.worker.test_rekeying import MemoryOutbox, give, open_partition, rekeyer

GRACE = 10.0
WALL = 1_790_000_000.0
POLICY = """
sessions: {idle: 30m}
rules:
  - {id: budget, kind: max_calls, params: {tool: pay, n: 2}, key: [agent]}
"""
HONEST, OLD = 0, 1  # two senders


class Receiver:
    """A receiving partition, and the topic in which its senders' messages are."""

    def __init__(self, policy: str = POLICY, senders: int = 2) -> None:
        self.wall = WALL
        self.rows: Rows = {}
        self.counts = Counts()
        self.found: list[Finding] = []
        self.log: list[Record] = []
        self._policy, self._senders = load_policy(policy, build_registry()), senders
        self.partition = self.open()

    def open(self) -> ReceivingPartition:
        """Open the partition anew from its rows."""
        letters = DeadLetters(None, self.counts, format_name="native")
        judge = Judge(self._policy, mode="stream", counts=self.counts)
        self.partition = ReceivingPartition(
            PartitionStore(0, self.rows, KEY_STATES),
            judge,
            letters,
            SessionLimits(),
            senders=self._senders,
            grace=GRACE,
            now=lambda: self.wall,
        )
        return self.partition

    def receive(self, *messages: ClockMessage | EventMessage) -> None:
        new = [Record(encode_message(one), "spanning/0", len(self.log) + at) for at, one in enumerate(messages)]
        self.log += new
        self.partition.fold("spanning", new, self.found)
        write(self.rows, self.partition.snapshot())

    def pay(self, sender: int, stamp: float, agent: str = "") -> None:
        """Receive a payment of a sender's agent."""
        agent, number = agent or f"agent-{sender}", len(self.log)
        order = {"order": number}
        call = ToolCall(session_id=f"s{sender}", event_id=f"e{number}", time=stamp, agent=agent, tool="pay", args=order)
        self.receive(EventMessage(sender, 1, (number, 1, 1), f"\0agent\0{agent}", 0, [], call))

    def clock(self, sender: int, watermark: float | None, *, unread_since: float | None = None) -> None:
        """Receive the clock of a sender that has read everything, or all that came before a wall time."""
        read_until = self.wall if unread_since is None else unread_since
        self.receive(ClockMessage(sender, watermark, self.wall, read_until))

    @property
    def agents(self) -> list[str]:
        return [finding.agent for finding in self.found]


def test_a_partition_at_1970_holds_nobody_back_for_longer_than_the_grace() -> None:
    run = Receiver()
    for number in range(3):
        run.pay(HONEST, WALL + number)
    for second in range(25):
        run.wall = WALL + second
        run.pay(OLD, float(second), agent=f"other-{second}")
        run.clock(HONEST, run.wall)
        run.clock(OLD, float(second))
        if run.found:
            break
    assert run.agents == ["agent-0"]
    assert GRACE <= run.wall - (WALL + 2) <= GRACE + 1


def test_counts_of_an_agent_at_1970_go_on_while_others_move_the_clock() -> None:
    run = Receiver()
    for hour in range(1, 6):
        for second in range(20):  # long enough to be lifted
            run.wall = WALL + hour * 3600 + second
            run.clock(HONEST, run.wall)
            run.clock(OLD, float(hour))
        run.pay(OLD, float(hour))
    assert run.agents == ["agent-1"] * 3
    assert run.counts.disbelieved_times > 0, "such stamps are counted"


@pytest.mark.parametrize("delay", [0.0, 8.0])
def test_honest_partitions_are_waited_for_to_the_last_event(delay: float) -> None:
    run = Receiver()
    for second in range(60):
        run.wall = WALL + second
        run.pay(HONEST, run.wall, agent="shared")
        run.clock(HONEST, run.wall)
        run.pay(OLD, run.wall - delay, agent="shared")
        run.clock(OLD, run.wall - delay)
    times = [finding.time or 0.0 for finding in run.found]
    assert len(times) > 80
    assert times == sorted(times)
    assert run.counts.disbelieved_times == 0


def test_a_sender_that_catches_up_is_waited_for_however_long_it_takes() -> None:
    run = Receiver()
    for second in range(100):
        run.wall = WALL + second
        run.clock(HONEST, run.wall)
        run.clock(OLD, WALL - 3600 + second, unread_since=WALL - 3600)
    run.pay(HONEST, WALL - 3590, agent="shared")
    run.pay(OLD, WALL - 3400, agent="shared")
    assert not run.found
    run.pay(HONEST, WALL - 3595, agent="shared")
    run.clock(OLD, WALL)
    assert [finding.time for finding in run.found] == [WALL - 3400], "in the order of their times"


def test_a_sender_ahead_of_its_wall_time_lifts_nobody_past_it() -> None:
    run = Receiver(senders=3)
    for second in range(40):
        run.wall = WALL + second
        run.clock(HONEST, run.wall - 3)
        run.clock(OLD, float(second))
        run.clock(2, run.wall + 300)
    assert run.counts.disbelieved_times == 0
    for number in range(3):
        run.pay(HONEST, run.wall - 2 + number / 10)
    assert not run.found, "the events of an honest sender are not late: they wait for its clock"
    run.clock(HONEST, run.wall)
    run.wall += GRACE + 2
    run.clock(OLD, 40.0)
    assert run.agents == ["agent-0"]


def test_a_partition_without_events_is_not_waited_for() -> None:
    run = Receiver()
    run.clock(OLD, None)
    for number in range(3):
        run.pay(HONEST, WALL + number)
    run.clock(HONEST, WALL + 5)
    assert run.agents == ["agent-0"]


@pytest.mark.parametrize("seed", range(5))
def test_a_run_after_a_crash_repeats_what_the_crash_interrupted(seed: int) -> None:
    dice, whole = random.Random(seed), Receiver(senders=3)
    for second in range(60):
        whole.wall = WALL + second
        for sender in range(3):
            stamp = float(second) if sender == OLD else whole.wall - dice.random()
            if dice.random() < 0.6:
                whole.pay(sender, stamp, agent=dice.choice(["a", "b", "c"]))
            whole.clock(sender, stamp, unread_since=whole.wall - dice.choice([0, 0, 5, 60]))
    wanted = {finding.alert_id for finding in whole.found}
    assert len(wanted) > 20

    run = Receiver(senders=3)
    run.wall = whole.wall
    at = crashes = 0
    while at < len(whole.log):
        batch = whole.log[at : at + dice.randint(1, 15)]
        run.partition.fold("spanning", batch, run.found)
        changes = run.partition.snapshot()
        crash = dice.random() < 0.3
        write(run.rows, changes[: dice.randint(0, len(changes) - 1)] if crash else changes)
        if crash:
            crashes += 1
            run.open()
        else:
            at = batch[-1].position + 1
    assert crashes > 5
    assert {finding.alert_id for finding in run.found} == wanted


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(-100, 100)), max_size=80), st.floats(0, 30))
def test_nobody_is_lifted_further_than_somebody_was(steps: Sequence[tuple[float, float]], ago: float) -> None:
    moments: list[tuple[float, float]] = []
    furthest, wall, seen = FurthestWatermarks(moments, GRACE), WALL, list[tuple[float, float]]()
    for elapsed, ahead in steps:
        wall += elapsed
        seen.append((wall, min(wall, wall + ahead)))
        furthest.note(wall, wall + ahead)
    known = furthest.at(wall - ago)
    was = max((watermark for moment, watermark in seen if moment <= wall - ago), default=-inf)
    assert known is None or known <= was
    assert len(moments) <= 24


def test_a_furthest_sender_that_comes_on_is_known_to_an_eighth_of_the_grace() -> None:
    furthest = FurthestWatermarks([], GRACE)
    for tenth in range(1_000):
        furthest.note(WALL + tenth / 10, WALL + tenth / 10)
    known = furthest.at(WALL + 99.9 - GRACE)
    assert known is not None
    assert 0 <= WALL + 99.9 - GRACE - known <= 2 * GRACE / 8


def test_a_rekeyed_partition_is_read_as_far_as_the_slowest_source(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    partition, found, outbox = open_partition({}, policy), list[Finding](), MemoryOutbox()
    for source, wall in ((0, 100.0), (1, 90.0), (1, 95.0)):
        asyncio.run(rekeyer(outbox, Counts(), 2, clocks_every=1.0).tick([], {source: wall}))
    assert len(outbox.records) == 6, "each goes to both partitions"
    read = []
    for at, clock in enumerate(outbox.records[::2]):
        record = Record(clock.value, "rekeyed/0", at, key=clock.key, headers=tuple(clock.headers))
        partition.fold("rekeyed", [record], found)
        read.append(partition.read_until(None))
    assert read == [None, 90.0, 95.0]
    assert partition.next_offset("rekeyed") == 3


def test_clocks_of_sources_keep_no_rekeyed_partition_from_being_idle(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    outbox, wall = MemoryOutbox(), [0.0]
    partition, found = open_partition({}, policy, lambda: wall[0]), list[Finding]()
    give(rekeyer(outbox, Counts()), 0, [b'{"kind": "user_message", "session_id": "s", "time": 0}'])
    asyncio.run(rekeyer(outbox, Counts(), clocks_every=1.0).tick([], {0: 100.0}))
    records = [
        Record(one.value, "rekeyed/0", at, key=one.key, headers=tuple(one.headers))
        for at, one in enumerate(outbox.records)
    ]
    partition.fold("rekeyed", records, found)
    partition.snapshot()
    for second in range(1, 10):
        wall[0] = float(second)
        partition.fold("rekeyed", [msgspec.structs.replace(records[1], position=1 + second)], found)
    assert partition.watermark == 0.0
    partition.tick(9.0, found)
    assert partition.watermark == 9.0


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize("rekey", [False, True])
def test_a_producer_at_1970_does_not_blind_rules_across_sessions(fleet: Fleet, policy: Path, rekey: bool) -> None:
    policy.write_text(POLICY)
    options = ("--no-serve", "--rekey") if rekey else ("--no-serve",)
    name = fleet.start(options=options, worker__idle_grace="1")
    old, good = (
        next(key for n in range(99) if partition_of_key((key := f"{word}-{n}").encode(), fleet.partitions) == home)
        for home, word in enumerate(("old", "good"))
    )
    sent, alerts, read = {old: 0, good: 0}, Counter[str](), dict[int, int]()
    with closing(KafkaProducer(bootstrap_servers=fleet.cluster.address)) as producer:

        def send(session: str, stamp: float) -> None:
            call = {"kind": "tool_call", "tool": "pay", "session_id": session, "agent": session, "time": stamp}
            row = as_row(call | {"event_id": f"{session}-{sent[session]}"})
            producer.send(fleet.events, key=row.key, value=row.value)
            sent[session] += 1

        def has_found(session: str, wanted: int) -> bool:
            send(old, float(sent[old]))  # it never falls silent
            alerts.update(json.loads(record.value)["subject"] for record in fleet.cluster.read(fleet.alerts, read))
            return alerts[session] >= wanted

        for _ in range(3):
            send(good, time.time())
        fleet.wait_until(lambda: has_found(good, 1))
        fleet.kill(name)
        fleet.start(name, options=options, worker__idle_grace="1")
        send(good, time.time())
        fleet.wait_until(lambda: has_found(good, 2))
        wanted = sent[old] - 2  # every call after the second, under whatever clock
        fleet.wait_until(lambda: has_found(old, wanted))
