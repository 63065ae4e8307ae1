"""Check topics by a sample of their newest records: partitions, keys, format, content and clocks, with advice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Final, TypeAlias

from stream_guard.errors import DecodeError
from stream_guard.judge.model import Event
from stream_guard.ports import Decoder, Record

AHEAD: Final = 5.0  # seconds an event may be in the future before that is a failure
BEHIND: Final = 300.0  # median seconds between an event and its record before that is a warning

# The partition of a key, given the number of partitions.
PartitionOfKey: TypeAlias = Callable[[bytes, int], int]


class Status(StrEnum):
    """The result of one check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what it is about, what it found, and what to do."""

    about: str
    status: Status
    found: str
    advice: str = ""


@dataclass(slots=True)
class Sample:
    """The newest records of the topics, and the events in them."""

    partitions: Mapping[str, int]  # how many, by topic
    records: list[Record] = field(default_factory=list)
    events: list[tuple[Record, Event]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # why records could not be read

    def add(self, record: Record, decoder: Decoder) -> None:
        """Add a record, with its events or with the reason why it has none."""
        self.records.append(record)
        try:
            self.events += [(record, event) for event in decoder.decode(record)]
        except DecodeError as error:
            self.refused.append(str(error))


def check_partitions(partitions: Mapping[str, int], companions: Mapping[str, int]) -> Check:
    """Check that all topics that are partitioned by session have the same number of partitions."""
    counted = {**partitions, **companions}
    counts = ", ".join(f"{topic} has {count}" for topic, count in counted.items())
    if len(set(counted.values())) == 1:
        return Check("partitions", Status.OK, counts)
    if len(set(partitions.values())) > 1:
        return Check(
            "partitions",
            Status.WARN,
            counts,
            "a session whose events come on more than one of these topics needs them to have equally many",
        )
    return Check(
        "partitions",
        Status.FAIL,
        counts,
        "give the table and re-key topics as many partitions as the events have; a key is elsewhere otherwise",
    )


def check_sample(sample: Sample, partition_of_key: PartitionOfKey, now: float | None = None) -> Iterator[Check]:
    """Yield the checks of format, keys, content and clocks over the sample."""
    if not sample.records:
        yield Check("records", Status.WARN, "there are none", "look again when something was produced")
        return
    yield Check("records", Status.OK, f"looked at the newest {len(sample.records)}")
    yield _check_format(sample)
    if not sample.events:
        return
    yield _check_spread(sample)
    yield _check_keys(sample, partition_of_key)
    yield _check_content(sample)
    yield _check_clock(sample, time.time() if now is None else now)


def _check_format(sample: Sample) -> Check:
    bad, total = len(sample.refused), len(sample.records)
    if not bad:
        return Check("format", Status.OK, f"all {total} records can be read")
    reason, _ = Counter(sample.refused).most_common(1)[0]
    return Check(
        "format",
        Status.FAIL if bad * 2 > total else Status.WARN,
        f"{bad} of {total} records cannot be read: {reason}",
        "name the format with --from-format, or mend the producer; such records become dead letters",
    )


def _check_spread(sample: Sample) -> Check:
    places: dict[str, set[str]] = {}
    for record, event in sample.events:
        places.setdefault(event.session_id, set()).add(record.origin)
    torn = {session: origins for session, origins in places.items() if len(origins) > 1}
    if not torn:
        return Check("key spread", Status.OK, f"each of {len(places)} sessions is on one partition")
    session = min(torn)
    where = ", ".join(sorted(torn[session]))
    return Check(
        "key spread",
        Status.FAIL,
        f"{len(torn)} of {len(places)} sessions are on more than one partition: {session!r} on {where}",
        "let the producer use the session's id as the key, or have the worker re-key",
    )


def _check_keys(sample: Sample, partition_of_key: PartitionOfKey) -> Check:
    keyless = sum(record.key is None for record, _ in sample.events)
    foreign = sum(record.key is not None and record.key != event.session_id.encode() for record, event in sample.events)
    total = len(sample.events)
    if keyless:
        return Check(
            "keys",
            Status.FAIL,
            f"{keyless} of {total} events have no key",
            "use the session's id as the key, or re-key",
        )
    if foreign:
        return Check(
            "keys",
            Status.WARN,
            f"the key of {foreign} of {total} events is not their session's id",
            "the worker has to re-key; better let the producer use the session's id",
        )
    elsewhere = sum(not _is_at_home(record, sample.partitions, partition_of_key) for record, _ in sample.events)
    if elsewhere:
        return Check(
            "keys",
            Status.WARN,
            f"{elsewhere} of {total} events are not where murmur2 puts their key",
            "set the producer's partitioner to murmur2 (librdkafka: murmur2_random), as all other clients here do",
        )
    return Check("keys", Status.OK, "keys are session ids, placed by murmur2")


def _is_at_home(record: Record, partitions: Mapping[str, int], partition_of_key: PartitionOfKey) -> bool:
    topic, _, number = record.origin.rpartition("/")
    return partition_of_key(record.key or b"", partitions[topic]) == int(number)


def _check_content(sample: Sample) -> Check:
    hollow = sum(not event.captured for _, event in sample.events)
    if not hollow:
        return Check("content", Status.OK, "events carry their content")
    return Check(
        "content",
        Status.WARN,
        f"{hollow} of {len(sample.events)} events come without their content",
        "switch content capture on at the source; rules about texts and arguments are unevaluable without",
    )


def _check_clock(sample: Sample, now: float) -> Check:
    timed = [(record, event.time) for record, event in sample.events if event.time is not None]
    total = len(sample.events)
    if len(timed) < total:
        return Check(
            "clock",
            Status.WARN,
            f"{total - len(timed)} of {total} events have no time",
            "have the source write one; rules about time are unevaluable without",
        )
    ahead = max(moment for _, moment in timed) - now
    if ahead > AHEAD:
        return Check(
            "clock",
            Status.FAIL,
            f"the latest event is {ahead:.0f} s in the future",
            "set the producers' clocks, and ours; an early clock closes other sessions as idle",
        )
    lags = [record.time - moment for record, moment in timed if record.time is not None]
    usual = median(lags) if lags else 0.0
    if abs(usual) > BEHIND:
        return Check(
            "clock",
            Status.WARN,
            f"events are usually {usual:.0f} s older than their records",
            "fine for a replay; otherwise look at the exporter and at the producers' clocks",
        )
    return Check("clock", Status.OK, f"events are usually {usual:.1f} s older than their records")
