"""Assignments that lack a topic are waited out: nothing is processed meanwhile, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from stream_guard.errors import SettingsError
from stream_guard.worker.kafka.consumer import BatchConsumer, RestoreProgress
from stream_guard.worker.kafka.group import find_lacking
from tests.worker.fleet import Fleet
from tests.worker.outcome import account, compare, poisoned, undisturbed

WARNING = "has handed out partitions without those of"
ALL = {"events", "rekeyed", "rows"}


@pytest.mark.parametrize(
    ("events", "rekeyed", "rows", "known", "lacking"),
    [
        ({0, 2}, {0, 2}, {0, 2}, ALL, []),
        (set(), set(), set(), ALL, []),
        ({0, 2}, {0, 2}, set(), {"events", "rekeyed"}, ["rows"]),
        ({0, 2}, {0, 2}, {0}, ALL, ["rows"]),
        ({0, 2}, set(), {0, 2}, {"events", "rows"}, ["rekeyed"]),
        ({0, 2}, set(), set(), {"events"}, ["rekeyed", "rows"]),
        (set(), set(), set(), {"events", "rekeyed"}, ["rows"]),
        (set(), {0, 2}, {0, 2}, {"rekeyed", "rows"}, ["events"]),
        (set(), set(), set(), set(), ["events", "rekeyed", "rows"]),
    ],
    ids=["all", "nothing", "no rows", "few rows", "not rekeyed", "only events", "idle", "no events", "none is known"],
)
def test_topics_that_the_leader_did_not_know_are_lacking(
    events: set[int], rekeyed: set[int], rows: set[int], known: set[str], lacking: list[str]
) -> None:
    shares = {"events": events, "rekeyed": rekeyed, "rows": rows}
    assert find_lacking(shares, {"rows"}, known) == lacking


@pytest.mark.parametrize(
    ("events", "rekeyed", "rows", "known"),
    [
        ({0, 2}, {0, 1, 2}, {0, 2}, ALL),
        ({0, 2}, set(), {0, 2}, ALL),
        ({0, 2}, {0, 1, 2}, set(), {"events", "rekeyed"}),
        ({0, 2}, {0, 2}, {0, 1, 2}, ALL),
    ],
    ids=["others", "none", "and no rows are known", "more rows"],
)
def test_workers_that_do_not_read_the_same_topics_end_at_once(
    events: set[int], rekeyed: set[int], rows: set[int], known: set[str]
) -> None:
    shares = {"events": events, "rekeyed": rekeyed, "rows": rows}
    with pytest.raises(SettingsError, match=r"do not read the same topics \(this one: events, rekeyed\)"):
        find_lacking(shares, {"rows"}, known)


class Consumer(BatchConsumer):
    """A consumer with an assignment, and without a broker."""

    def __init__(self) -> None:  # the parts of Faust that need an app are not made
        self.flow_active = True
        self.failure = self._wait = None
        tables = SimpleNamespace(actives_ready=True, changelog_topics={"rows"})
        assignor = SimpleNamespace(warming=frozenset[int]())
        self.app: Any = SimpleNamespace(tables=tables, assignor=assignor, rebalancing=False, in_recovery=False)
        self.progress = RestoreProgress()

    def assignment(self) -> set[TP]:
        return {TP("events", 0)}


def test_a_worker_whose_assignment_lacks_a_topic_is_not_ready_until_it_has_another_one() -> None:
    consumer = Consumer()
    assert consumer._is_ready()
    consumer._wait_for(["rows"])
    assert not consumer._is_ready()
    assert consumer.unready() == ["the leader of the group does not know rows yet"]
    consumer._wait_for([])
    assert consumer._is_ready()
    assert consumer.unready() == []


def test_the_end_of_a_recovery_does_not_make_a_worker_ready_while_the_next_one_goes_on() -> None:
    consumer = Consumer()
    consumer.app.in_recovery = True
    assert not consumer._is_ready()
    assert consumer.unready() == ["states are being recovered: no row read yet"]


def test_the_patience_counts_from_the_first_assignment_that_lacks_something() -> None:
    consumer = Consumer()
    consumer._wait_for(["rows"])
    first = consumer._wait
    consumer._wait_for(["rows", "rekeyed"])
    assert first is not None
    assert consumer._wait is not None
    assert (consumer._wait.since, consumer.lacking()) == (first.since, ["rows", "rekeyed"])


class Unknowing:
    """A fleet whose clients do not know some topics for a while."""

    def __init__(self, fleet: Fleet, file: Path) -> None:
        self.fleet = fleet
        self._file = file
        self._env = {"UNKNOWN": str(file)}

    def start(self, name: str = "", *, attentive: bool = True, **given: Any) -> str:
        env = self._env if attentive else self._env | {"INATTENTIVE": "1"}
        process = {"launcher": ("-m", "tests.worker.unknowing_worker"), "env": env}
        return self.fleet.start(name, process=process, **given)

    def forget(self, ending: str) -> None:
        self._file.write_text(ending)

    def learn(self) -> None:
        self._file.unlink()

    def wait_for_warnings(self, *names: str) -> None:
        self.fleet.wait_until(lambda: all(WARNING in self.fleet.log_of(name) for name in names))


@pytest.fixture
def unknowing(fleet: Fleet, tmp_path: Path) -> Unknowing:
    return Unknowing(fleet, tmp_path / "unknown")


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize("attentive", [True, False])
def test_a_fleet_whose_leader_does_not_know_the_new_changelog_waits_for_it(
    unknowing: Unknowing, policy: Path, attentive: bool, record_property: Callable[[str, object], None]
) -> None:
    fleet, rows = unknowing.fleet, poisoned(300)
    unknowing.forget("-changelog")
    names = [unknowing.start(attentive=attentive) for _ in range(3)]
    fleet.cluster.fill(fleet.events, rows)
    unknowing.wait_for_warnings(*names)
    assert not fleet.rows(), "nobody is an owner"
    assert fleet.cluster.uncommitted(fleet.group, [fleet.events]) == len(rows)
    unknowing.learn()
    fleet.wait_for(len(rows))
    compare(account(fleet, rows), undisturbed(rows, policy), record_property)
    assert [fleet.log_of(name).count(WARNING) for name in names] == [1, 1, 1]


@pytest.mark.kafka
@pytest.mark.long
def test_sessions_go_on_from_their_rows_after_assignments_without_them(
    unknowing: Unknowing, policy: Path, record_property: Callable[[str, object], None]
) -> None:
    fleet, rows = unknowing.fleet, poisoned(450)
    third = len(rows) // 3
    names = [unknowing.start() for _ in range(3)]
    fleet.cluster.fill(fleet.events, rows[:third])
    fleet.wait_for(third)
    unknowing.forget("-changelog")
    fleet.stop(names.pop())
    names.append(unknowing.start())
    fleet.cluster.fill(fleet.events, rows[third : 2 * third])
    unknowing.wait_for_warnings(*names)
    written = dict(fleet.rows())
    for name in names:  # the leader among them: started again under its name, it does not know that it is the leader
        fleet.kill(name)
        unknowing.start(name)
    unknowing.wait_for_warnings(*names)
    assert fleet.rows() == written, "nobody is an owner"
    unknowing.learn()
    fleet.cluster.fill(fleet.events, rows[2 * third :])
    fleet.wait_for(len(rows))
    compare(account(fleet, rows), undisturbed(rows, policy), record_property)


@pytest.mark.kafka
def test_a_worker_ends_when_its_leader_does_not_learn_of_a_topic(unknowing: Unknowing) -> None:
    unknowing.forget("-changelog")
    name = unknowing.start(kafka__patience="3")
    assert unknowing.fleet.end_of(name) == 3
    log = unknowing.fleet.log_of(name)
    assert f"not known the partitions of {unknowing.fleet.group}-sessions-changelog for 3 s (kafka.patience)" in log


@pytest.mark.long
@pytest.mark.kafka
def test_a_worker_that_reads_other_topics_than_its_group_ends_at_once(fleet: Fleet) -> None:
    fleet.start()
    fleet.wait_until(fleet.rows)  # the partitions are claimed
    other = fleet.start(options=("--no-serve", "--rekey"))
    assert fleet.end_of(other) == 2, fleet.log_of(other)
    assert "do not read the same topics" in fleet.log_of(other)
    assert WARNING not in fleet.log_of(other)


@pytest.mark.kafka
@pytest.mark.long
def test_a_worker_that_is_stopped_while_it_starts_does_not_disturb_the_others(
    fleet: Fleet, policy: Path, record_property: Callable[[str, object], None]
) -> None:
    rows = poisoned(120)
    fleet.start()
    fleet.wait_until(fleet.rows)  # the partitions are claimed
    for number in range(4):
        name = fleet.start()
        fleet.wait_until(lambda name=name: "ConsumerThread]: Starting" in fleet.log_of(name))  # type: ignore[misc]
        time.sleep(number * 0.3)  # before it joins the group, while it joins, after
        fleet.stop(name)
    fleet.cluster.fill(fleet.events, rows)
    fleet.wait_for(len(rows))
    compare(account(fleet, rows), undisturbed(rows, policy), record_property)
