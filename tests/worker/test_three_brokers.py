"""Three brokers, three copies, two of them in sync: brokers and workers are killed or cut off, and no alert is lost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.kafka.cluster import Cluster
from tests.kafka.fixtures import require_broker
from tests.kafka.trio import Trio
from tests.worker.fleet import Fleet
from tests.worker.outcome import account, compare, poisoned, run
from tests.worker.samples import checked, sample_rows
from tests.worker.test_disturbed import kill

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SESSIONS = {1: 1_300, 20: 6_000}  # by kills; 20,000 and 90,000 events


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    require_broker()
    with Trio(tmp_path_factory.mktemp("trio") / "trio") as made:
        yield made


@pytest.fixture
def make_fleet(trio: Trio, tmp_path: Path, policy: Path) -> Iterator[Callable[[], Fleet]]:
    made: list[Fleet] = []

    def make() -> Fleet:
        made.append(Fleet(Cluster(trio.address), tmp_path, policy))
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()


@pytest.fixture
def fleet(make_fleet: Callable[[], Fleet]) -> Fleet:
    return make_fleet()


@pytest.fixture
def endless(policy: Path) -> Path:
    """The sample policy without an idle end: sessions that never end can be counted."""
    policy.write_text(policy.read_text().replace("idle: 30m", "idle: 90d"))
    return policy


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("kills", sorted(SESSIONS))
def test_leaders_and_workers_are_killed_under_load_and_the_alerts_are_those_of_an_undisturbed_run(
    trio: Trio, make_fleet: Callable[[], Fleet], kills: int, record_property: Callable[[str, object], None]
) -> None:
    rows = poisoned(SESSIONS[kills], every=2)
    wanted = run(make_fleet(), rows)
    fleet, killed = make_fleet(), list[str]()
    fleet.restarts = 0

    def disturb(fleet: Fleet, dice: random.Random) -> None:
        if len(killed) % 2 == 0:
            topic = dice.choice([fleet.events, f"{fleet.group}-sessions-changelog"])
            node = trio.kill_leader(topic, dice.randrange(fleet.partitions))
            time.sleep(dice.uniform(1.0, 4.0))  # the random moment of its return
            trio.start([node])
            killed.append(f"broker {node}")
        else:
            kill(fleet, dice)
            killed.append("worker")

    found = run(fleet, rows, disturb, 2 * kills)
    assert trio.copies(f"{fleet.group}-sessions-changelog") == 3, "the brokers' default"
    record_property("kills", len(killed))
    record_property("restarts", fleet.restarts)
    print(
        f"{len(rows)} records, {len(killed)} kills, {fleet.restarts} workers ended by themselves and were started again"
    )
    assert killed.count("worker") == len(killed) - kills == kills
    assert len(wanted.alerts) > 400
    compare(found, wanted, record_property)


def test_a_worker_waits_while_too_few_replicas_are_in_sync_and_loses_nothing(
    trio: Trio, fleet: Fleet, policy: Path
) -> None:
    rows = sample_rows(400)
    changelog = f"{fleet.group}-sessions-changelog"
    fleet.cluster.create(fleet.partitions, changelog, cleanup_policy="compact", min_insync_replicas="3")
    half = len(rows) // 2
    fleet.cluster.fill(fleet.events, rows[:half])
    name = fleet.start(worker__stall="300")
    fleet.wait_for(half)
    node = trio.kill_leader(changelog)
    try:
        fleet.cluster.fill(fleet.events, rows[half:])
        fleet.wait_until(lambda: "NotEnoughReplicas" in fleet.log_of(name))
    finally:
        trio.start([node])
    fleet.wait_for(len(rows))
    assert set(account(fleet, rows).alerts) == set(checked(rows, policy))


def test_a_worker_that_is_cut_off_from_its_brokers_and_comes_back_spoils_nothing(
    trio: Trio, fleet: Fleet, policy: Path, record_property: Callable[[str, object], None]
) -> None:
    rows = sample_rows(1_200)
    half = len(rows) // 2
    fleet.restarts = 0
    fleet.start("cut-off", at=trio.proxy.address)
    fleet.start("other")
    filling = Thread(target=fleet.cluster.fill, args=(fleet.events, rows[:half]))
    filling.start()
    fleet.wait_for(2_000)
    trio.proxy.cut()
    filling.join()
    fleet.wait_for(half)  # the other has taken over its partitions
    trio.proxy.restore()
    fleet.cluster.fill(fleet.events, rows[half:])
    fleet.wait_for(len(rows))
    found = account(fleet, rows)
    record_property("restarts", fleet.restarts)
    print(f"{fleet.restarts} restarts, {found.repeats} alerts sent again")
    assert found.alerts.keys() == checked(rows, policy).keys()
