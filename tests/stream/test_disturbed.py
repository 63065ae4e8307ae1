"""Workers that are killed, join and leave: no alert is lost, a repeat has the same id, and every state is exact."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster
from tests.stream.fleet import Fleet, sample_rows

pytestmark = pytest.mark.kafka

Disturb = Callable[[Fleet, random.Random], None]


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


def either(fleet: Fleet, dice: random.Random) -> None:
    """Kill one, or let one leave."""
    dice.choice((kill, come_and_go))(fleet, dice)


def run(fleet: Fleet, sessions: int, disturb: Disturb | None = None, times: int = 0) -> tuple[set[str], dict[str, Any]]:
    """Judge sample sessions with three workers and return the alert ids and the states they leave."""
    rows = sample_rows(sessions, open_every=10)
    dice = random.Random(times)
    for _ in range(3):
        fleet.start()
    step = max(1, len(rows) // (times + 1))
    for number in range(times + 1):
        # Between two disturbances there is always something left to judge: the next piece comes with them.
        fleet.cluster.fill(fleet.events, rows[number * step : (number + 1) * step if number < times else len(rows)])
        if number < times and disturb is not None:
            fleet.wait_for(number * step)
            time.sleep(dice.uniform(0.0, 1.0))  # the random moment
            disturb(fleet, dice)
    fleet.wait_for(len(rows))
    assert fleet.cluster.read(fleet.letters) == []
    return set(fleet.alert_ids()), fleet.sessions()


@pytest.mark.parametrize("disturb", [kill, come_and_go])
def test_a_disturbed_fleet_ends_where_an_undisturbed_one_does(
    make_fleet: Callable[[], Fleet], disturb: Disturb
) -> None:
    wanted = run(make_fleet(), 1_300)
    found = run(make_fleet(), 1_300, disturb, 3)
    assert len(wanted[0]) > 400
    assert found[0] == wanted[0]
    assert found[1] == wanted[1]


@pytest.mark.slow
def test_twenty_disturbances_of_a_long_load_lose_nothing(make_fleet: Callable[[], Fleet]) -> None:
    wanted = run(make_fleet(), 13_400)
    found = run(make_fleet(), 13_400, either, 20)
    assert found == wanted


@pytest.mark.slow
def test_a_broker_that_is_killed_and_comes_back_loses_nothing(
    own_broker: Broker, make_fleet: Callable[[], Fleet]
) -> None:
    wanted = run(make_fleet(), 1_300)
    fleet = make_fleet()
    fleet.move_to(Cluster(own_broker.address()))

    def restart(_: Fleet, __: random.Random) -> None:
        own_broker.kill()
        own_broker.start()

    assert run(fleet, 1_300, restart, 1) == wanted
