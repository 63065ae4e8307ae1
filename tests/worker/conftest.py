"""Fixtures of the worker's tests: fleets on topics of their own, and the sample policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stream_guard.cli.demo import write_samples
from tests.kafka.cluster import Cluster
from tests.worker.fleet import Fleet


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """The sample policy, in a file of the test's own."""
    _, file = write_samples(tmp_path, 1)
    return file


@pytest.fixture
def make_fleet(cluster: Cluster, tmp_path: Path, policy: Path) -> Iterator[Callable[[], Fleet]]:
    """Make fleets; end their workers after the test."""
    made: list[Fleet] = []

    def make() -> Fleet:
        made.append(Fleet(cluster, tmp_path, policy))
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()


@pytest.fixture
def fleet(make_fleet: Callable[[], Fleet]) -> Fleet:
    """One fleet."""
    return make_fleet()


@pytest.fixture
def wide(make_fleet: Callable[[], Fleet]) -> Fleet:
    """A fleet on a topic with twice the partitions."""
    fleet = make_fleet()
    fleet.partitions *= 2
    fleet.move_to(fleet.cluster)
    return fleet
