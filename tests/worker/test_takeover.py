"""A killed worker's partitions go to a worker that has a copy of their states, and reads next to nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.kafka.cluster import Cluster
from tests.worker.before import POLICY
from tests.worker.fleet import Fleet
from tests.worker.samples import checked, sample_rows
from tests.worker.test_succession import halves

pytestmark = pytest.mark.kafka

SAID = re.compile(r"states are here: (\d+) rows; (\d+) rows were read")


@pytest.fixture
def narrow(cluster: Cluster, tmp_path: Path, policy: Path) -> Iterator[Fleet]:
    """A fleet on one partition: one worker has it, the next one a copy of its states."""
    fleet = Fleet(cluster, tmp_path, policy, partitions=1)
    yield fleet
    fleet.close()


def wait_for_copies(fleet: Fleet, name: str, number: int) -> None:
    """Wait until a worker has that many complete copies."""
    url, wanted = fleet.url(name), f'stream_guard_copies{{state="complete"}} {float(number)}'

    def has() -> bool:
        with urlopen(f"{url}/metrics", timeout=10) as answer:
            return wanted in answer.read().decode()

    fleet.wait_until(has)


def restored(fleet: Fleet, name: str) -> tuple[int, int]:
    """How many rows a worker had when it became the owner last, and how many of them it read for that."""
    rows, read = SAID.findall(fleet.log_of(name))[-1]
    return int(rows), int(read)


def test_a_copy_takes_over_and_when_it_dies_too_the_changelog_has_all(narrow: Fleet, policy: Path) -> None:
    policy.write_text(POLICY)
    early, late = halves(sample_rows(400))
    first, *rest = (late[at : at + len(late) // 3 + 1] for at in range(0, len(late), len(late) // 3 + 1))
    narrow.cluster.fill(narrow.events, early)
    owner = narrow.start()
    narrow.wait_for(len(early))
    copy = narrow.start(options=())
    wait_for_copies(narrow, copy, 1)
    narrow.cluster.fill(narrow.events, first)  # sessions end: their rows are deleted from the copy as well
    narrow.wait_for(len(early) + len(first))
    narrow.kill(owner)
    narrow.cluster.fill(narrow.events, rest[0])
    narrow.wait_for(len(early) + len(first) + len(rest[0]))
    rows, read = restored(narrow, copy)
    assert rows > 100
    assert read < rows / 4, "only what came after the copy was last read"
    narrow.kill(copy)
    narrow.cluster.fill(narrow.events, rest[1])
    last = narrow.start()
    narrow.wait_for(len(early) + len(late))
    rows, read = restored(narrow, last)
    assert read >= rows
    assert set(narrow.alert_ids()) == set(checked([*early, *late], policy))


@pytest.mark.long
def test_a_worker_that_goes_on_after_a_rebalance_reads_its_own_states_not_again(fleet: Fleet, policy: Path) -> None:
    policy.write_text(POLICY)
    early, late = halves(sample_rows(200))
    fleet.cluster.fill(fleet.events, early)
    name = fleet.start()
    fleet.wait_for(len(early))
    other = fleet.start()
    fleet.wait_until(lambda: SAID.search(fleet.log_of(other)))
    fleet.stop(other)
    fleet.cluster.fill(fleet.events, late)
    fleet.wait_for(len(early) + len(late))
    rows, read = restored(fleet, name)
    assert read < rows / 2
    assert set(fleet.alert_ids()) == set(checked([*early, *late], policy))


@pytest.mark.long
def test_without_copies_a_successor_reads_all_of_it(narrow: Fleet, policy: Path) -> None:
    policy.write_text(POLICY)
    early, late = halves(sample_rows(60))
    narrow.cluster.fill(narrow.events, early)
    owner = narrow.start(worker__copies="0")
    narrow.wait_for(len(early))
    successor = narrow.start(worker__copies="0")
    narrow.kill(owner)
    narrow.cluster.fill(narrow.events, late)
    narrow.wait_for(len(early) + len(late))
    rows, read = restored(narrow, successor)
    assert read >= rows > 0
    assert set(narrow.alert_ids()) == set(checked([*early, *late], policy))
