"""Rules that look across sessions, on many partitions: each event is evaluated once, in the order of its time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stream_guard.alerting.delivery import Delivery
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.demo.sessions import sample_events
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Alert
from stream_guard.kafka.client import partition_of_key
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.settings import Settings, load_settings
from stream_guard.worker.assembly import Health, WorkerParts, build_stages
from stream_guard.worker.kafka.topics import KafkaOutbox
from stream_guard.worker.rows import RowChange
from stream_guard.worker.stages import TopicPartition, TopicRouter
from tests.kafka.cluster import Row
from tests.worker.fleet import Fleet
from tests.worker.samples import as_row, checked

SPANNING = "spanning"

POLICY = """
sessions: {idle: 90d}
rules:
  - id: confirmed
    kind: must_call_before
    params: {first: confirm_refund_amount, second: issue_refund}
  - id: burst
    kind: tool_guard
    params: {when: {call_count_in_window_gt: {tool: issue_refund, value: 1, windowSeconds: 60}}}
    key: [agent]
  - id: budget
    kind: max_calls
    params: {tool: issue_refund, n: 5}
    key: [labels.tenant]
  - id: same-amount
    kind: must_remain_consistent
    params: {path: tool.args.amount}
    when: [{path: labels.tier, op: "==", value: large}]
    key: [agent, tool]
  - id: answered
    kind: must_followup
    params:
      trigger: [{path: response.content, op: contains, value: quote_refund}]
      must: {kind: tool_call, tool_name: confirm_refund_amount}
      within_turns: 50
      within_seconds: 4
    key: [labels.tenant]
"""


def tenants(sessions: int, partitions: int) -> list[Row]:
    """Sessions of several agents and tenants; the last events move all watermarks far beyond the rest."""
    events = []
    for event in sample_events(sessions):
        number = int(event["session_id"][-5:])
        labels = event["labels"] | {"tenant": f"tenant-{number % 5}"}
        events.append(event | {"agent": f"agent-{number % 7}", "labels": labels})
    late, homes, number = events[-1]["time"] + 3600, set[int](), 0
    while len(homes) < partitions:
        name, number = f"late-{number}", number + 1
        if (home := partition_of_key(name.encode(), partitions)) not in homes:
            homes.add(home)
            events.append({"kind": "user_message", "event_id": name, "session_id": name, "time": late})
            events.append({"kind": "session_end", "event_id": f"{name}-end", "session_id": name, "time": late})
    return [as_row(event) for event in events]


class CrashError(Exception):
    """The worker crashes here."""


class Broker:
    """Topics in memory, the table, and a worker that crashes at random writes."""

    def __init__(self, policy: Path, partitions: int, dice: random.Random, crashes: int) -> None:
        self.partitions = partitions
        self.logs: dict[TopicPartition, list[Record]] = {}
        self.table: dict[bytes, bytes] = {}
        self.alerts: list[str] = []
        self._policy = policy
        self._dice = dice
        self.crashes = crashes

    def append(self, source: TopicPartition, value: bytes, key: bytes | None = None, headers: Any = ()) -> None:
        log = self.logs.setdefault(source, [])
        log.append(Record(value, f"{source.topic}/{source.partition}", len(log), key=key, headers=tuple(headers)))

    def _may_crash(self) -> bool:
        crash = self.crashes > 0 and self._dice.random() < 0.1
        self.crashes -= crash
        return crash

    # The producer and the table.

    def create_batch(self) -> Any:
        held: list[dict[str, Any]] = []

        def append(**record: Any) -> object:
            if len(held) == 20:
                return None
            held.append(record)
            return held

        return SimpleNamespace(append=append, close=lambda: None, held=held, record_count=lambda: len(held))

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> Any:
        crash = self._may_crash()
        if not crash or self._dice.random() < 0.5:  # written, and not acknowledged
            for record in batch.held:
                self.append(TopicPartition(topic, partition), record["value"], record["key"], record["headers"])
        if crash:
            raise CrashError
        done = asyncio.get_running_loop().create_future()
        done.set_result(SimpleNamespace(offset=0))
        return done

    def recovered(self, _partition: int) -> dict[bytes, bytes]:
        return self.table

    async def write(self, changes: Mapping[int, Sequence[RowChange]]) -> None:
        for listed in changes.values():
            crash = self._may_crash()
            for key, value in listed[: self._dice.randint(0, len(listed))] if crash else listed:
                self.table.update({key: value}) if value is not None else self.table.pop(key, None)
            if crash:
                raise CrashError

    # The sink.

    def send(self, alerts: Sequence[Alert]) -> None:
        self.alerts += [alert.alert_id for alert in alerts]
        if self._may_crash():
            raise CrashError

    def flush(self) -> int:
        return 0

    def worker(self) -> TopicRouter:
        counts, registry = Counts(), build_registry()
        parts = WorkerParts(
            judge=Judge(load_policy(self._policy, registry), mode="stream", counts=counts),
            decoder=Assembly(Settings(), registry).make_decoder("native"),
            delivery=Delivery({"here": self}, counts),  # type: ignore[dict-item]  # as much of a sink as is needed
            dead_letters=DeadLetters(None, counts, format_name="native"),
            settings=load_settings(worker={"group": "g"}),
            health=Health(counts, patience=1.0),
            observe=lambda _seconds, _records: None,
        )
        return build_stages(parts, self, partial(KafkaOutbox, self), ["events"], self.partitions)

    def _is_done(self, worker: TopicRouter, number: int) -> bool:
        sources = [source for source in self.logs if source.partition == number]
        return all((worker.next_offset(source) or 0) == len(self.logs[source]) for source in sources)

    async def run(self) -> None:
        """Process everything there is, in batches of any size, from partitions in any order."""
        asyncio.get_running_loop().set_exception_handler(_pass_over_crashes)
        worker = self.worker()
        while True:
            sources = [source for source, log in self.logs.items() if (worker.next_offset(source) or 0) < len(log)]
            try:
                if not sources:
                    await worker.flush()
                    if not self._has_more(worker):
                        return
                    continue
                source = self._dice.choice(sources)
                start = max(0, (worker.next_offset(source) or 0) - self._dice.randint(0, 3))
                batch = self.logs[source][start : start + self._dice.randint(1, 90)]
                await worker.process({source: batch}, lambda _: None)
                if self._dice.random() < 0.2:
                    await worker.flush()
                    idle = [number for number in range(self.partitions) if self._is_done(worker, number)]
                    await worker.tick(set(idle), [], {TopicPartition("events", number): time.time() for number in idle})
            except CrashError:
                await _end_others()
                worker = self.worker()

    def _has_more(self, worker: TopicRouter) -> bool:
        return any((worker.next_offset(source) or 0) < len(log) for source, log in self.logs.items())


def _pass_over_crashes(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report what went wrong unasked, except a crash of the test's own in a worker that is thrown away."""
    if not isinstance(context.get("exception"), CrashError):
        loop.default_exception_handler(context)


async def _end_others() -> None:
    """Cancel the tasks of a crashed worker."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """Rules of which most look across sessions."""
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return file


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
def test_alerts_are_those_of_check_whatever_crashes_and_whichever_partition_is_ahead(policy: Path, seed: int) -> None:
    dice = random.Random(seed)
    planned = 40 if seed else 0
    broker = Broker(policy, 3, dice, planned)
    rows = tenants(60, 3)
    for row in rows:
        broker.append(TopicPartition("events", partition_of_key(row.key or b"", 3)), row.value or b"", row.key)
    asyncio.run(broker.run())
    wanted = checked(rows, policy)
    assert set(wanted.values()) == {"confirmed", "burst", "budget", "same-amount", "answered"}
    assert set(broker.alerts) == set(wanted)
    # How many crashes happen depends on the number of writes, which varies with timing.
    assert broker.crashes <= planned / 2
    if not seed:
        assert len(broker.alerts) == len(wanted), "no alert is repeated without a crash"


@pytest.mark.kafka
@pytest.mark.long
def test_alerts_across_sessions_are_those_of_check_for_three_workers_that_are_killed(
    fleet: Fleet, policy: Path
) -> None:
    rows, dice = tenants(400, fleet.partitions), random.Random(5)
    fleet.fill_while_workers_die(rows, 2, dice)
    wanted = checked(rows, policy)
    fleet.wait_for_all(SPANNING)
    fleet.wait_until(lambda: set(wanted) <= set(fleet.alert_ids()))
    assert {alert["id"]: alert["data"]["rule_id"] for alert in fleet.sent()} == wanted


@pytest.mark.kafka
def test_a_policy_that_brings_the_first_such_rule_waits_for_a_restart(fleet: Fleet, policy: Path) -> None:
    alone, first = POLICY.partition("  - id: burst")[::2]
    policy.write_text(alone)
    name = fleet.start()
    call = {"kind": "tool_call", "tool": "issue_refund", "time": 1.0}
    fleet.cluster.fill(fleet.events, [as_row(call | {"session_id": "s", "event_id": "1"})])
    fleet.wait_for(1)
    policy.write_text(f"{alone}  - id: burst{first}")
    fleet.wait_until(lambda: "stop all workers of the group" in fleet.log_of(name))
    fleet.cluster.fill(fleet.events, [as_row(call | {"session_id": "t", "event_id": "2"})])
    fleet.wait_for(2)
    assert {alert["subject"]: alert["data"]["rule_id"] for alert in fleet.sent()} == {
        "s": "confirmed",
        "t": "confirmed",
    }
    assert len({alert["data"]["policy_version"] for alert in fleet.sent()}) == 1
