"""Workers are killed, join and leave: no alert is lost, repeats have the same id, and every state is exact."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster
from tests.worker.fleet import Fleet
from tests.worker.outcome import Disturb, compare, poisoned, run, undisturbed

pytestmark = pytest.mark.kafka

LONG = 14_000  # sessions, of which half never end: a little over 200,000 events


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
