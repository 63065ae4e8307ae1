"""What a sample of records says about topics: each mistake is seen, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from stream_guard_formats.native.decoder import NativeDecoder

from stream_guard.doctor.topics import Check, Sample, check_partitions, check_sample
from stream_guard.kafka.client import partition_of_key
from stream_guard.ports import Record

NOW = 1_767_600_000.0
PARTITIONS = {"events": 3}


def record(session: str = "s1", *, at: int | None = None, key: bytes | None = b"", **fields: Any) -> Record:
    """A record as a well-behaved producer writes it, except for what is said."""
    event = {"kind": "user_message", "session_id": session, "time": NOW - 10, **fields}
    partition = partition_of_key(session.encode(), PARTITIONS["events"]) if at is None else at
    value = json.dumps({name: value for name, value in event.items() if value is not None}).encode()
    return Record(value, f"events/{partition}", key=session.encode() if key == b"" else key, time=NOW - 9)


def look_at(*records: Record) -> dict[str, Check]:
    sample = Sample(PARTITIONS)
    for one in records:
        sample.add(one, NativeDecoder())
    return {check.about: check for check in check_sample(sample, partition_of_key, NOW)}


GOOD = [record(f"s{number}") for number in range(20)]


def test_good_records_are_fit() -> None:
    checks = look_at(*GOOD)
    assert {check.status for check in checks.values()} == {"ok"}
    assert list(checks) == ["records", "format", "key spread", "keys", "content", "clock"]
    assert checks["clock"].found == "events are usually 1.0 s older than their records"


def test_nothing_to_look_at_is_said() -> None:
    assert look_at()["records"].status == "warn"


@pytest.mark.parametrize(
    ("bad", "about", "status", "found"),
    [
        ([record("s1", at=0), record("s1", at=1)], "key spread", "fail", "1 of 20 sessions are on more than one"),
        ([record("s1", key=None)], "keys", "fail", "1 of 21 events have no key"),
        ([record("s1", key=b"other")], "keys", "warn", "the key of 1 of 21 events is not their session's id"),
        (
            [record("new", at=(partition_of_key(b"new", 3) + 1) % 3)],
            "keys",
            "warn",
            "1 of 21 events are not where murmur2 puts their key",
        ),
        ([Record(b"{", "events/0", key=b"k")], "format", "warn", "1 of 21 records cannot be read"),
        ([Record(b"{", "events/0", key=b"k")] * 30, "format", "fail", "30 of 50 records cannot be read"),
        ([record("s1", captured=False)], "content", "warn", "1 of 21 events come without their content"),
        ([record("s1", time=None)], "clock", "warn", "1 of 21 events have no time"),
        ([record("s1", time=NOW + 60)], "clock", "fail", "the latest event is 60 s in the future"),
    ],
)
def test_a_mistake_is_seen(bad: list[Record], about: str, status: str, found: str) -> None:
    check = look_at(*GOOD, *bad)[about]
    assert check.status is status
    assert check.found.startswith(found)
    assert check.advice


def test_old_events_in_new_records_are_remarkable() -> None:
    check = look_at(*(record(f"s{number}", time=NOW - 10_000) for number in range(5)))["clock"]
    assert (check.status, check.found) == ("warn", "events are usually 9991 s older than their records")


def test_records_nobody_can_read_say_nothing_about_keys() -> None:
    assert list(look_at(Record(b"?", "events/0"))) == ["records", "format"]


def test_table_and_re_key_topics_need_as_many_partitions_as_the_events() -> None:
    assert check_partitions({"a": 3}, {"t": 3}).status == "ok"
    assert check_partitions({"a": 3}, {}).status == "ok"
    assert check_partitions({"a": 3}, {"t": 4}).status == "fail"
    assert check_partitions({"a": 3, "b": 4}, {}).status == "warn"
