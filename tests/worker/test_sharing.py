"""The leader shares out partitions and copies, and workers of the version before understand it, and are understood."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from faust.assignor.client_assignment import ClientAssignment
from faust.assignor.partition_assignor import PartitionAssignor
from faust.types import TP

from stream_guard.settings import Settings
from stream_guard.worker.kafka.app import TABLE, make_app
from stream_guard.worker.kafka.sharing import SharingAssignor

TOPICS = {"events", f"stream-guard-{TABLE}-changelog"}
CLUSTER: Any = SimpleNamespace(partitions_for_topic=lambda _topic: {0, 1, 2, 3})


@pytest.fixture
def app() -> Iterator[Any]:
    """An app that is not started."""
    made = make_app(Settings(), ["127.0.0.1:9092"], 4)
    yield made
    made.folders.cleanup()


def newer(app: Any, *owned: int, ready: tuple[int, ...] = (), light: tuple[int, ...] = ()) -> Any:
    """A worker of this version, with the partitions that it had and the states that it has."""
    assignor = SharingAssignor(app)
    assignor.wanted, assignor.ready, assignor.light = 1, frozenset(ready), frozenset(light)
    return had(assignor, owned)


def older(app: Any, *owned: int) -> Any:
    """A worker of the version before."""
    return had(PartitionAssignor(app), owned)


def had(assignor: Any, owned: tuple[int, ...]) -> Any:
    """Give an assignor the partitions of an assignment before."""
    assignor._assignment = ClientAssignment(actives={topic: list(owned) for topic in TOPICS}, standbys={})
    return assignor


def share(members: dict[str, Any], leader: str) -> dict[str, set[int]]:
    """Have the leader share out, and every worker take its share; the partitions of each."""
    told = {name: member.metadata(TOPICS) for name, member in members.items()}
    for name, assignment in members[leader].assign(CLUSTER, told).items():
        members[name].on_assignment(assignment)
    for member in members.values():
        assert member.assigned_standbys() == set(), "Faust restores no copies"
        assert {tp.topic for tp in member.assigned_actives()} <= TOPICS
    return {
        name: {number for topic, number in member.assigned_actives() if topic == "events"}
        for name, member in members.items()
    }


def test_partitions_go_to_where_their_states_are_and_copies_to_others(app: Any) -> None:
    members: dict[str, Any] = {"a": newer(app, 0, 1, ready=(0, 1, 2, 3)), "b": newer(app, ready=())}
    assert share(members, "b") == {"a": {0, 1, 2, 3}, "b": set()}
    assert members["b"].copies == {0, 1, 2, 3}
    assert (members["a"].copies, len(members["b"].warming)) == (set(), 2)
    members["b"].ready = members["b"].copies
    assert share(members, "a") == {"a": {2, 3}, "b": {0, 1}}
    assert (members["a"].copies, members["b"].copies) == ({0, 1}, {2, 3})


@pytest.mark.parametrize("leader", ["old", "new"])
def test_a_worker_of_the_version_before_leads_and_follows(app: Any, leader: str) -> None:
    members: dict[str, Any] = {"old": older(app, 0, 1), "new": newer(app, 2, 3, ready=(2, 3, 0))}
    assert share(members, leader) == {"old": {0, 1}, "new": {2, 3}}
    assert members["new"].copies == ({0, 1} if leader == "new" else None)


def test_without_copies_all_is_shared_out_as_before(app: Any) -> None:
    members: dict[str, Any] = {"a": newer(app, 0, 1, 2, 3, ready=(0, 1, 2, 3)), "b": newer(app)}
    members["a"].wanted = members["b"].wanted = 0
    assert sorted(map(len, share(members, "a").values())) == [2, 2]
    assert {TP("events", 0), TP("events", 1)} < members["a"].assigned_actives() | members["b"].assigned_actives()
