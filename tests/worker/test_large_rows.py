"""Rows and messages of a group are as large as the settings allow, whatever the brokers take by default."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ConfigResource, ResourcePattern, ResourceType

from stream_guard.settings import load_settings
from stream_guard.worker.rows import ROOM, PartitionStore, SessionRow, decode_session, most_bytes, session_key
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster, Row
from tests.worker.fleet import Fleet
from tests.worker.partitions import Rows, write
from tests.worker.samples import checked
from tests.worker.test_savepoints import run, wait_until_stopped

LIMIT = "max.message.bytes"
START = 1_767_600_000.0
POLICY = """
rules:
  - {id: twice, kind: max_calls, params: {tool: look, n: 1}}
"""


def event(session: str, number: int, after: float, kind: str, **fields: Any) -> Row:
    told = {"kind": kind, "event_id": f"{session}-{number}", "session_id": session, "time": START + after, **fields}
    return Row(json.dumps(told).encode(), session.encode())


def long_turn(session: str, number: int, after: float, size: int) -> Row:
    words = "".join(chr(97 + place * 7919 % 26) for place in range(size))
    request = {"messages": [{"role": "user", "content": words}]}
    return event(session, number, after, "turn", request=request, response={"content": "so"})


def configs_of(cluster: Cluster, topic: str) -> dict[str, str]:
    admin = KafkaAdminClient(bootstrap_servers=cluster.address)
    try:
        [[described]] = [found.values() for found in admin.describe_configs([ConfigResource("TOPIC", topic)]).values()]
    finally:
        admin.close()
    return {name: entry["value"] for name, entry in described.items()}


def move(fleet: Fleet, file: Path) -> None:
    """Have another group go on, by a savepoint."""
    wait_until_stopped(fleet, file)
    fleet.move_group(f"{fleet.group}-2")
    code, said = run(fleet, "import", file)
    assert code == 0, said


@pytest.mark.kafka
@pytest.mark.parametrize("size", [pytest.param(1_100_000, marks=pytest.mark.long), 3_000_000])
def test_a_session_that_is_larger_than_brokers_take_by_default_is_kept_moved_and_restored(
    fleet: Fleet, policy: Path, size: int
) -> None:
    policy.write_text(POLICY)
    rows = [
        event("s", 0, 0, "tool_call", tool="look", args={}, call_id="c0"),
        long_turn("s", 1, 4000, size),
        event("t", 0, 1, "tool_call", tool="look", args={}, call_id="c0"),
        event("t", 1, 2, "tool_call", tool="look", args={}, call_id="c1"),
    ]
    late = [
        long_turn("s", 2, 4001, size),
        event("s", 3, 4002, "tool_call", tool="look", args={}, call_id="c1"),
        event("s", 4, 4003, "tool_call", tool="look", args={}, call_id="c2"),
    ]
    fleet.cluster.fill(fleet.events, rows)
    name = fleet.start()
    fleet.wait_for(len(rows))
    fleet.stop(name)
    move(fleet, policy.with_name("states"))
    fleet.cluster.fill(fleet.events, late)
    fleet.start(name)
    fleet.wait_for(len(rows) + len(late))
    assert set(fleet.alert_ids()) == set(checked([*rows, *late], policy))
    assert len(fleet.alert_ids()) >= 2


@pytest.mark.kafka
def test_a_group_whose_topics_take_less_has_them_raised_and_nothing_else_changed(fleet: Fleet, policy: Path) -> None:
    policy.write_text(POLICY)
    own = {"cleanup.policy": "compact", "min.compaction.lag.ms": "600001", "segment.bytes": "200000001"}
    changelog = f"{fleet.group}-sessions-changelog"
    fleet.cluster.create(fleet.partitions, changelog, **{key.replace(".", "_"): value for key, value in own.items()})
    before = configs_of(fleet.cluster, changelog)
    fleet.cluster.fill(fleet.events, [long_turn("s", 1, 0, 10)])
    name = fleet.start(sessions__max_session_bytes="12000000")
    fleet.wait_for(1)
    fleet.stop(name)
    assert configs_of(fleet.cluster, changelog) == before | own | {LIMIT: str(12_000_000 + 2 * ROOM)}
    fleet.start(name)
    fleet.wait_until(fleet.rows)
    assert configs_of(fleet.cluster, changelog)[LIMIT] == str(12_000_000 + 2 * ROOM), "nothing is taken back"


@pytest.mark.kafka
def test_the_topics_of_a_new_group_take_what_the_settings_allow(fleet: Fleet, policy: Path) -> None:
    policy.write_text(POLICY)
    fleet.cluster.fill(fleet.events, [long_turn("s", 1, 0, 10)])
    fleet.start(options=("--no-serve", "--rekey"), decode__max_record_bytes="20000000")
    fleet.wait_until(fleet.rows)
    for ending in ("sessions-changelog", "rekeyed"):
        assert int(configs_of(fleet.cluster, f"{fleet.group}-{ending}")[LIMIT]) == 20_000_000 + 2 * ROOM


@pytest.mark.long
@pytest.mark.kafka
def test_a_worker_that_may_not_raise_a_limit_says_what_to_do(
    own_broker: Broker, make_fleet: Callable[[], Fleet], policy: Path
) -> None:
    policy.write_text(POLICY)
    _check_rights(own_broker)
    fleet = make_fleet()
    fleet.move_to(Cluster(own_broker.address()))
    changelog = f"{fleet.group}-sessions-changelog"
    fleet.cluster.create(fleet.partitions, changelog, cleanup_policy="compact")
    _rights(own_broker, ACLPermissionType.ALLOW, ACLOperation.ALL)
    _rights(own_broker, ACLPermissionType.DENY, ACLOperation.ALTER_CONFIGS)
    name = fleet.start()
    assert fleet.end_of(name) == 2
    most = most_bytes(load_settings()) + ROOM
    assert f"{changelog} does not take records of {most} bytes" in fleet.log_of(name)
    assert f"set it to {most}, or have smaller records and sessions with decode.max_record_bytes" in fleet.log_of(name)
    _rights(own_broker, ACLPermissionType.DENY, ACLOperation.DESCRIBE_CONFIGS)
    fleet.cluster.fill(fleet.events, [long_turn("s", 1, 0, 10)])
    fleet.start(name)
    fleet.wait_for(1)
    assert f"whether {changelog} takes records of {most} bytes" in fleet.log_of(name)


def _check_rights(broker: Broker) -> None:
    """Have a broker look at who may do what; everybody may do all that nobody has said anything about."""
    broker.stop()
    with (broker.folder / "server.properties").open("a") as properties:
        properties.write("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n")
        properties.write("allow.everyone.if.no.acl.found=true\n")
    broker.start()


def _rights(broker: Broker, permission: ACLPermissionType, operation: ACLOperation) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.address())
    try:
        every = ResourcePattern(ResourceType.TOPIC, "*")
        admin.create_acls([ACL("User:ANONYMOUS", "*", operation, permission, every)])
    finally:
        admin.close()


def test_a_row_that_no_broker_would_take_is_written_as_ended_and_told_of_and_the_others_are_written() -> None:
    rows, told = Rows(), list[tuple[str, int]]()

    def open_() -> PartitionStore:
        return PartitionStore(0, rows, most=1000, too_large=lambda name, size: told.append((name, size)))

    store = open_()
    store.put("small", b"x" * 900, 5.0)
    store.put("large", b"x" * 1000, 5.0)
    store.put("other", b"y", None)
    store.applied[7] = 3
    write(rows, store.snapshot(None, 0.0))
    [(name, size)] = told
    assert (name, size > 1000) == ("large", True)
    assert [store.get(name) for name in ("small", "large", "other")] == [b"x" * 900, None, b"y"]
    assert decode_session(rows[session_key(0, "large")]) == SessionRow(1, {7: 3}, None, b"")
    again = open_()
    assert dict(again.deadlines()) == {"small": 5.0, "other": None}
    store.put("large", b"z", None)  # it became smaller
    write(rows, store.snapshot(None, 0.0))
    assert store.get("large") == b"z"
    assert len(told) == 1
    assert max(map(len, rows.values())) <= 1000
