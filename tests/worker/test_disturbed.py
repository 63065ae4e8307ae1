"""Workers are killed, join and leave: no alert is lost, repeats have the same id, and every state is exact."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from stream_guard.alerting.delivery import alerts_of
from stream_guard.kafka.client import partition_of_key
from stream_guard.model import Finding
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster, Row
from tests.worker.fleet import PARTITIONS, Fleet, live_sessions
from tests.worker.partitions import Rows, open_partition, write
from tests.worker.samples import sample_rows

pytestmark = pytest.mark.kafka

Disturb = Callable[[Fleet, random.Random], None]
LONG = 14_000  # sessions, of which half never end: a little over 200,000 events


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    alerts: dict[str, tuple[str, str]]  # session and rule, by id
    sessions: dict[str, dict[str, Any]]
    repeats: int


def kill(fleet: Fleet, dice: random.Random) -> None:
    """Kill a worker and start it again under its name."""
    name = dice.choice(sorted(fleet.workers))
    fleet.kill(name)
    fleet.start(name)


def come_and_go(fleet: Fleet, dice: random.Random) -> None:
    """Let a worker leave in good order and another one join."""
    name = dice.choice(sorted(fleet.workers))
    fleet.stop(name)
    fleet.start()


def poisoned(sessions: int, *, every: int = 10) -> list[Row]:
    """Sample sessions of which some never end, and a record that cannot be read after each 1,000."""
    rows: list[Row] = []
    for number, row in enumerate(sample_rows(sessions, open_every=every)):
        rows.append(row)
        if number % 1_000 == 999:
            rows.append(Row(b"{broken", row.key))
    return rows


def run(fleet: Fleet, rows: list[Row], disturb: Disturb | None = None, times: int = 0) -> Outcome:
    """Process records with three workers and return the outcome, after ``account`` has checked it."""
    dice = random.Random(times)
    for _ in range(3):
        fleet.start()
    step = max(1, len(rows) // (times + 1))
    for number in range(times + 1):
        piece = rows[number * step : (number + 1) * step if number < times else len(rows)]
        # Disturbed while records come in: killing an idle worker would test nothing.
        filling = Thread(target=fleet.cluster.fill, args=(fleet.events, piece))
        filling.start()
        if number < times and disturb is not None:
            time.sleep(dice.uniform(0.2, 1.2))  # the random moment
            disturb(fleet, dice)
        filling.join()
        fleet.wait_for(number * step)
    fleet.wait_for(len(rows))
    return account(fleet, rows)


def account(fleet: Fleet, rows: list[Row]) -> Outcome:
    """Return the outcome of a run, after checking that every event is in its session or a dead letter."""
    assert fleet.progress() == len(rows), "no more records are applied than there are"
    broken = sum(1 for row in rows if row.value == b"{broken")
    assert len(fleet.dead_letters()) == broken
    sent = Counter(json.loads(row.value or b"")["session_id"] for row in rows if row.value != b"{broken")
    sessions = fleet.sessions()
    assert {name: session["seq"] for name, session in sessions.items()} == {name: sent[name] for name in sessions}
    alerts = fleet.sent()
    found = {alert["id"]: (alert["subject"], alert["data"]["rule_id"]) for alert in alerts}
    assert all(found[alert["id"]] == (alert["subject"], alert["data"]["rule_id"]) for alert in alerts)
    return Outcome(found, sessions, len(alerts) - len(found))


def undisturbed(rows: list[Row], file: Path) -> Outcome:
    """The outcome of a run that nothing disturbs: the partitions one after the other, in this process."""
    policy = load_policy(file, build_registry())
    placed: list[list[Record]] = [[] for _ in range(PARTITIONS)]
    for row in rows:
        log = placed[partition_of_key(row.key or b"", PARTITIONS)]
        log.append(Record(row.value or b"", "events/0", len(log), key=row.key))
    found: list[Finding] = []
    sessions: dict[str, dict[str, Any]] = {}
    for log in placed:
        table: Rows = {}
        partition = open_partition(table, policy, "native", now=time.time)
        partition.fold("events", log, found)
        write(table, partition.snapshot())
        sessions |= live_sessions({key: (0, value) for key, value in table.items()})
    alerts = {alert.alert_id: (alert.session_id, alert.rule_id) for alert in alerts_of(found, "")}
    return Outcome(alerts, sessions, 0)


def compare(found: Outcome, wanted: Outcome, record: Callable[[str, object], None]) -> None:
    """Compare a disturbed run with an undisturbed one; report the number of repeated alerts."""
    record("alerts", len(found.alerts))
    record("repeated alerts", found.repeats)
    print(f"{len(found.alerts)} alerts, {found.repeats} of them sent again, {len(found.sessions)} live sessions")
    assert found.alerts == wanted.alerts
    assert found.sessions == wanted.sessions


@pytest.fixture
def endless(policy: Path) -> Path:
    """The sample policy without an idle end: sessions that never end can be counted."""
    policy.write_text(policy.read_text().replace("idle: 30m", "idle: 90d"))
    return policy


@pytest.mark.parametrize("disturb", [kill, pytest.param(come_and_go, marks=pytest.mark.long)])
def test_a_disturbed_fleet_ends_where_an_undisturbed_one_does(
    fleet: Fleet, policy: Path, disturb: Disturb, record_property: Callable[[str, object], None]
) -> None:
    rows = poisoned(1_300)
    wanted = undisturbed(rows, policy)
    found = run(fleet, rows, disturb, 3)
    assert len(wanted.alerts) > 400
    compare(found, wanted, record_property)


@pytest.mark.slow
@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("disturb", [kill, come_and_go])
def test_twenty_disturbances_and_a_broker_restart_during_a_long_load_lose_nothing(
    own_broker: Broker,
    make_fleet: Callable[[], Fleet],
    disturb: Disturb,
    record_property: Callable[[str, object], None],
) -> None:
    rows = poisoned(LONG, every=2)
    assert len(rows) > 200_000
    wanted = run(make_fleet(), rows)
    assert len(wanted.sessions) >= LONG // 2
    fleet = make_fleet()
    fleet.move_to(Cluster(own_broker.address()))
    turns: Iterator[int] = iter(range(20))

    def disturb_all(fleet: Fleet, dice: random.Random) -> None:
        disturb(fleet, dice)
        if next(turns) == 10:
            own_broker.kill()
            own_broker.start()

    found = run(fleet, rows, disturb_all, 20)
    compare(found, wanted, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.0, 0.5, 1.5])
def test_a_worker_that_starts_while_its_only_broker_restarts_waits_for_it(
    own_broker: Broker, fleet: Fleet, moment: float
) -> None:
    fleet.move_to(Cluster(own_broker.address()))
    name = fleet.start()
    fleet.wait_until(lambda: "a worker of group" in fleet.log_of(name))
    time.sleep(moment)  # connecting, joining the group, or reading the changelog
    own_broker.kill()
    own_broker.start()
    found = run(fleet, poisoned(20))
    assert found.alerts
