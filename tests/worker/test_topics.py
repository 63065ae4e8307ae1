"""Topics that are made anew, cut or widened under a group: the worker stops with a way on, and passes nothing over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_guard.errors import SettingsError, SourceError
from stream_guard.judge.model import Finding
from stream_guard.kafka.address import parse_address
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.worker.kafka.consumer import PresentTopic, recognise
from stream_guard.worker.kafka.topics import accepts_gaps
from stream_guard.worker.rows import KnownTopic, encode_row, topics_key
from stream_guard.worker.stages import TopicPartition
from tests.kafka.cluster import Row
from tests.worker.fleet import Fleet
from tests.worker.partitions import Rows, open_partition, write
from tests.worker.samples import as_row

EVENTS = TopicPartition("events", 3)
OLD, NEW = b"o" * 16, b"n" * 16

FORBID = """
sessions: {idle: 90d}
rules:
  - {id: no-rm, kind: no_call, params: {tool: delete_all}}
  - {id: twice, kind: max_calls, params: {tool: look, n: 1}}
"""


def call(session: str, number: int, tool: str) -> dict[str, Any]:
    at = 1_767_600_000.0 + number
    return {"kind": "tool_call", "event_id": f"{session}-{number}", "session_id": session, "time": at, "tool": tool}


@pytest.mark.parametrize(
    ("known", "present", "next_offset"),
    [
        (KnownTopic(OLD), PresentTopic(NEW, 500), 30),
        (KnownTopic(OLD), PresentTopic(NEW, 10), 30),
        (KnownTopic(OLD), PresentTopic(OLD, 10), 30),
        (KnownTopic(b""), PresentTopic(b"", 10), 30),
        (None, PresentTopic(NEW, 10), 30),
    ],
    ids=["longer", "shorter", "cut", "without ids", "by a version that kept no ids"],
)
def test_another_topic_is_refused_with_a_way_on_and_accepted_as_another_incarnation(
    known: KnownTopic | None, present: PresentTopic, next_offset: int
) -> None:
    with pytest.raises(SourceError, match=r"events/3: .*events\?gaps=accept"):
        recognise(EVENTS, known, present, next_offset, accept=False)
    accepted = recognise(EVENTS, known, present, next_offset, accept=True)
    assert accepted == KnownTopic(present.topic_id, 1)
    assert recognise(EVENTS, accepted, present, 0, accept=False) == accepted


@pytest.mark.parametrize("accept", [False, True])
@pytest.mark.parametrize(
    ("known", "present", "next_offset"),
    [
        (KnownTopic(OLD), PresentTopic(OLD, 500), 30),
        (KnownTopic(OLD), PresentTopic(OLD, 30), 30),
        (KnownTopic(OLD, 4), PresentTopic(OLD, 30), None),
        (KnownTopic(b""), PresentTopic(OLD, 30), 30),
        (None, PresentTopic(OLD, 0), None),
    ],
    ids=["more records", "nothing new", "nothing read", "ids are new", "first time"],
)
def test_the_same_topic_is_recognised_and_stays_what_it_was(
    known: KnownTopic | None, present: PresentTopic, next_offset: int | None, accept: bool
) -> None:
    incarnation = known.incarnation if known else 0
    assert recognise(EVENTS, known, present, next_offset, accept=accept) == KnownTopic(OLD, incarnation)


def test_offsets_of_an_earlier_incarnation_mean_nothing_and_the_states_of_sessions_go_on(policy: Path) -> None:
    policy.write_text(FORBID)
    loaded, rows, found = load_policy(policy, build_registry()), Rows(), list[Finding]()

    def fold(first: int, *calls: dict[str, Any]) -> list[str]:
        partition = open_partition(rows, loaded, "native")
        records = [Record(json.dumps(one).encode(), "events/0", first + place) for place, one in enumerate(calls)]
        found.clear()
        partition.fold("events", records, found)
        write(rows, partition.snapshot())
        return [finding.event_id for finding in found]

    fold(0, *(call(f"s{n}", 0, "look") for n in range(20)))
    assert fold(0, call("s3", 1, "delete_all")) == [], "the offset was applied"
    rows[topics_key(0)] = encode_row({"events": KnownTopic(NEW, 1)})
    assert open_partition(rows, loaded, "native").next_offset("events") == 0
    assert fold(0, call("s3", 1, "delete_all")) == ["s3-1"]
    assert fold(1, call("s4", 1, "look")) == ["s4-1"], "its state is from the topic before"


@pytest.mark.parametrize("query", ["from=latest", "gaps=maybe", "gaps=accept&to=3"])
def test_options_that_a_worker_does_not_know_are_refused(query: str) -> None:
    with pytest.raises(SettingsError, match="gaps=accept"):
        accepts_gaps(parse_address(f"kafka://b:9092/events?{query}"))
    assert accepts_gaps(parse_address("kafka://b:9092/events?gaps=accept"))
    assert not accepts_gaps(parse_address("kafka://b:9092/events?gaps=stop"))
    assert not accepts_gaps(parse_address("kafka://b:9092/events"))


def fill(fleet: Fleet, prefix: str, count: int) -> None:
    rows: list[Row] = [as_row(call(f"{prefix}{number}", 0, "delete_all")) for number in range(count)]
    fleet.cluster.fill(fleet.events, rows)


def found(fleet: Fleet) -> set[str]:
    return {alert["subject"] for alert in fleet.sent()}


@pytest.mark.long
@pytest.mark.kafka
def test_a_topic_made_anew_with_more_records_than_before_stops_the_worker_until_it_is_accepted(
    fleet: Fleet, policy: Path
) -> None:
    policy.write_text(FORBID)
    fill(fleet, "a", 20)
    name = fleet.start()
    fleet.wait_for(20)
    fleet.stop(name)
    fleet.cluster.recreate(fleet.events, fleet.partitions)
    fill(fleet, "b", 120)
    fleet.start(name)
    assert fleet.end_of(name) == 3
    assert f"{fleet.events}?gaps=accept" in fleet.log_of(name)
    assert found(fleet) == {f"a{number}" for number in range(20)}
    fleet.start(name, query="?gaps=accept")
    fleet.wait_until(lambda: len(found(fleet)) == 140)
    fleet.stop(name)
    fill(fleet, "c", 1)
    fleet.start(name)  # without the option: it is the topic that was read before
    fleet.wait_until(lambda: "c0" in found(fleet))
    fleet.cluster.recreate(fleet.events, fleet.partitions)
    assert fleet.end_of(name) == 3, "under way, too"
    assert "this is not the topic that was read before" in fleet.log_of(name)


@pytest.mark.long
@pytest.mark.kafka
def test_partitions_that_are_added_under_a_running_worker_stop_it_and_are_refused_at_the_start(fleet: Fleet) -> None:
    name = fleet.start()
    fleet.wait_until(fleet.rows)  # the partitions are claimed
    fleet.cluster.add_partitions(fleet.events, fleet.partitions + 2)
    for again in (False, True):
        if again:
            fleet.start(name)
        assert fleet.end_of(name) == 2, fleet.log_of(name)
        assert f"{fleet.events} has {fleet.partitions + 2}" in fleet.log_of(name)
        assert "another --group" in fleet.log_of(name)
