"""Policies of a topic: a partition is judged by one until an offset, and by the next from there on."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest

from stream_guard.worker.rows import decode_policy, policy_key
from tests import processes
from tests.kafka.cluster import Row
from tests.worker.fleet import Fleet

pytestmark = pytest.mark.kafka
NAMES = ("old", "new", "newer")


def write_policy(folder: Path, rule: str) -> Path:
    """A policy whose one rule finds every call, so that an alert tells which policy judged its event."""
    file = folder / f"{rule}.yaml"
    file.write_text(f"rules: [{{id: {rule}, kind: no_call, params: {{tool: wipe}}}}]")
    return file


def calls(first: int, count: int, tenants: tuple[str, ...] = ()) -> list[Row]:
    """Calls, each in a session of its own."""
    rows = []
    for number in range(first, first + count):
        event: dict[str, Any] = {
            "kind": "tool_call",
            "session_id": f"s{number}",
            "event_id": f"e{number}",
            "tool": "wipe",
        }
        event |= {"time": time.time(), "args": {}}
        if tenants:
            event["labels"] = {"tenant": tenants[number % len(tenants)]}
        rows.append(Row(json.dumps(event).encode(), f"s{number}".encode()))
    return rows


class Group:
    """Workers that follow a topic of policies."""

    def __init__(self, fleet: Fleet, folder: Path, **settings: str) -> None:
        self.fleet = fleet
        self.topic = fleet.cluster.create(1, cleanup_policy="compact")
        self.policies = {name: write_policy(folder, name) for name in NAMES}
        fleet.policy = self.policies["old"]
        self.settings = {"worker__policy_topic": self.topic, **settings}

    def start(self, name: str = "") -> str:
        return self.fleet.start(name, **self.settings)

    def command(self, *words: object) -> str:
        done = processes.run("policy", *words, "--to", self.fleet.cluster.url(self.topic))
        assert done.returncode == 0, done.stderr.decode()
        return str(done.stdout.decode())

    def publish(self, name: str, *options: str) -> None:
        self.command("publish", self.policies[name], *options)

    def rollouts(self) -> list[dict[str, str]]:
        listed: list[dict[str, str]] = json.loads(self.command("rollouts", "--format", "json"))
        return listed

    def wait_for_switch(self, number: int) -> None:
        """Wait until the rows of all partitions name the rollout."""
        self.fleet.wait_until(lambda: self.switches() == dict.fromkeys(range(self.fleet.partitions), number))

    def switches(self) -> dict[int, int]:
        rows = self.fleet.rows()
        found = {number: rows.get(policy_key(number)) for number in range(self.fleet.partitions)}
        return {number: decode_policy(row[1]).rollout for number, row in found.items() if row is not None}

    def offsets(self) -> dict[int, int]:
        """From where on each partition is judged by its rollout, by its row."""
        rows = self.fleet.rows()
        return {
            number: decode_policy(rows[policy_key(number)][1]).offsets[self.fleet.events]
            for number in range(self.fleet.partitions)
        }

    def judged(self) -> dict[int, list[tuple[int, set[str]]]]:
        """By partition: the offset of each event, and the rules that found it."""
        found = defaultdict(set)
        for alert in self.fleet.sent():
            found[alert["data"]["session_id"].rpartition("/")[2]].add(alert["data"]["rule_id"])
        places: dict[int, list[tuple[int, set[str]]]] = defaultdict(list)
        for record in self.fleet.cluster.read(self.fleet.events):
            places[record.partition].append((record.offset, found[json.loads(record.value)["session_id"]]))
        return places

    def wait_for_events(self, count: int) -> None:
        self.fleet.wait_for(count)


@pytest.fixture
def group(make_fleet: Callable[[], Fleet], tmp_path: Path) -> Group:
    return Group(make_fleet(), tmp_path)


def check_order(group: Group, *names: str) -> None:
    """Each event was judged by one policy, and in each partition they follow each other in this order."""
    for partition, events in group.judged().items():
        for offset, rules in events:
            assert len(rules) == 1, f"{partition}@{offset}: {rules}"
        said = [next(iter(rules)) for _, rules in sorted(events)]
        ordered = [name for name in names for rule in said if rule == name]
        assert said == ordered, f"partition {partition}: {said}"


def test_a_rollout_a_bad_one_and_a_rollback_are_taken_over_in_order(group: Group, tmp_path: Path) -> None:
    name = group.start()
    group.fleet.cluster.fill(group.fleet.events, calls(0, 60))
    group.wait_for_events(60)
    group.publish("new")
    group.wait_for_switch(0)
    starts = group.offsets()
    group.fleet.cluster.fill(group.fleet.events, calls(60, 60))
    group.wait_for_events(120)
    check_order(group, "old", "new")
    for partition, events in group.judged().items():
        assert {offset for offset, rules in events if "new" in rules} == {
            offset for offset, _ in events if offset >= starts[partition]
        }
    # What is no policy, and what is no rollout at all, is refused, and stops nothing.
    bad = json.dumps({"policy": {"version": "x", "text": "rules: [{kind: no_such}]"}}).encode()
    group.fleet.cluster.fill(group.topic, [Row(b"\xff", b"x"), Row(bad, b"rollout/bad"), Row(None, b"rollout/none")])
    group.fleet.wait_until(lambda: group.fleet.log_of(name).count("cannot be used, ") == 3)
    assert "no_such" in group.fleet.log_of(name)
    listed = group.rollouts()
    group.command("rollback", listed[-1]["number"])  # the first good one is in force: nothing changes for anybody
    group.publish("newer")
    group.command("rollback")
    versions = [one["version"] for one in group.rollouts()]
    assert versions[0] == versions[2] != versions[1]
    number = int(group.rollouts()[0]["number"])
    group.wait_for_switch(number)
    group.fleet.wait_until(lambda: f"{group.fleet.group}: 6 partitions" in group.rollouts()[0]["switched"])
    group.fleet.cluster.fill(group.fleet.events, calls(120, 60))
    group.wait_for_events(180)
    check_order(group, "old", "new")


@pytest.mark.long
def test_a_tenant_is_held_back_and_let_go(make_fleet: Callable[[], Fleet], tmp_path: Path) -> None:
    group = Group(make_fleet(), tmp_path, sessions__tenant_label="tenant")
    group.start()
    group.publish("old")
    group.publish("new", "--hold", "acme")
    number = int(group.rollouts()[0]["number"])
    group.wait_for_switch(number)
    group.fleet.cluster.fill(group.fleet.events, calls(0, 60, ("acme", "other")))
    group.wait_for_events(60)
    found = {(alert["data"]["session_id"].partition("/")[0], alert["data"]["rule_id"]) for alert in group.fleet.sent()}
    assert found == {("acme", "old"), ("other", "new")}
    versions = {alert["data"]["rule_id"]: alert["data"]["policy_version"] for alert in group.fleet.sent()}
    listed = group.rollouts()[0]
    assert versions == {"new": listed["version"], "old": listed["held"].removeprefix("acme: ")}
    group.publish("new")
    group.wait_for_switch(int(group.rollouts()[0]["number"]))
    group.fleet.cluster.fill(group.fleet.events, calls(60, 60, ("acme", "other")))
    group.wait_for_events(120)
    later = [alert for alert in group.fleet.sent() if int(alert["data"]["session_id"].rpartition("/s")[2]) >= 60]
    assert {alert["data"]["rule_id"] for alert in later} == {"new"}


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.long)])
def test_kills_and_rebalances_amid_rollouts_leave_every_event_to_one_policy(group: Group, kills: int) -> None:
    dice = Random(kills)
    names = [group.start() for _ in range(2)]
    sent = 0
    for published in NAMES[1 : 2 + kills // 3]:
        for step in range(kills):
            rows = calls(sent, 400)
            filling = Thread(target=group.fleet.cluster.fill, args=(group.fleet.events, rows))
            filling.start()
            sent += len(rows)
            if step == kills // 2:
                group.publish(published)
            name = dice.choice(names)
            group.fleet.kill(name)
            filling.join()
            group.start(name)
    group.wait_for_events(sent)
    number = int(group.rollouts()[0]["number"])
    group.wait_for_switch(number)
    rows = calls(sent, 30)
    group.fleet.cluster.fill(group.fleet.events, rows)
    group.wait_for_events(sent + 30)
    check_order(group, *NAMES)
    last = NAMES[1 + kills // 3]
    for partition, start in group.offsets().items():
        assert all((last in rules) is (offset >= start) for offset, rules in group.judged()[partition])


def test_a_topic_with_several_partitions_is_refused(make_fleet: Callable[[], Fleet], tmp_path: Path) -> None:
    group = Group(make_fleet(), tmp_path)
    several = group.fleet.cluster.create(2)
    name = group.fleet.start(worker__policy_topic=several)
    assert group.fleet.end_of(name) == 2
    assert "has 2 partitions; create it with one partition" in group.fleet.log_of(name)
