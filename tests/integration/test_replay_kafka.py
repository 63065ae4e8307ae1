"""Replay of topic ranges: what check finds in the file is what replay finds in the topic it was written to."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stream_guard.cli.demo import produce_samples, write_samples
from stream_guard.demo.sessions import sample_events
from stream_guard.settings import KafkaSettings
from tests import processes
from tests.kafka.cluster import Cluster, Row

pytestmark = pytest.mark.kafka

SESSIONS = 60


def guard(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return processes.run(*arguments, env=variables)


def ids(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    assert done.returncode in (0, 1), done.stderr
    return [json.loads(line)["alert_id"] for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    write_samples(folder, SESSIONS)
    return folder


def timed_rows() -> list[Row]:
    """The sample events as a producer would have written them at the time: the record's time is the event's."""
    return [
        Row(json.dumps(event).encode(), event["session_id"].encode(), round(event["time"] * 1000))
        for event in sorted(sample_events(SESSIONS), key=lambda event: float(event["time"]))
    ]


@pytest.mark.parametrize("processes", [pytest.param("1", marks=pytest.mark.long), "2"])
def test_replay_of_a_topic_finds_what_check_finds_in_the_file(cluster: Cluster, samples: Path, processes: str) -> None:
    topic = cluster.create(partitions=3)
    cluster.fill(topic, timed_rows())
    checked = ids(guard("check", samples / "events.jsonl", "--policy", samples / "policy.yaml", "--format", "jsonl"))
    command = ("replay", cluster.url(topic), "--policy", samples / "policy.yaml", "--format", "jsonl")
    small = {"STREAM_GUARD_COMMIT__RECORDS": "100"}
    once = guard(*command, "--to", "2027-01-01T00:00:00Z", "--processes", processes, **small)
    assert sorted(ids(once)) == sorted(checked)
    assert len(checked) > 10
    again = guard(*command, "--to", "2027-01-01T00:00:00Z", "--processes", processes)
    assert again.stdout == once.stdout


def test_bounds_are_the_times_of_the_records(cluster: Cluster, samples: Path) -> None:
    topic = cluster.create(partitions=3)
    rows = timed_rows()
    cluster.fill(topic, rows)
    times = sorted(float(json.loads(row.value or b"")["time"]) for row in rows)
    start, stop = times[len(times) // 4], times[len(times) // 2]
    inside = [row.value for row in rows if start <= json.loads(row.value or b"")["time"] < stop]
    done = guard(
        "replay",
        cluster.url(topic),
        "--from",
        _written(start),
        "--to",
        _written(stop),
        "--policy",
        samples / "policy.yaml",
        "--format",
        "jsonl",
    )
    assert f"{len(inside)} records".encode() in done.stderr


def _written(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_several_processes_need_a_settled_end(cluster: Cluster, samples: Path) -> None:
    topic = cluster.create()
    done = guard("replay", cluster.url(topic), "--policy", samples / "policy.yaml", "--processes", "2")
    assert done.returncode == 2
    assert b"say where it is with --to" in done.stderr


def test_the_demo_writes_its_samples_to_a_topic_keyed_by_session(cluster: Cluster) -> None:
    topic = cluster.create(partitions=4)
    written = produce_samples(cluster.url(topic), 10, KafkaSettings())
    records = cluster.read(topic)
    assert len(records) == written == len(list(sample_events(10)))
    assert all(json.loads(record.value)["session_id"].encode() == record.key for record in records)
    homes: dict[bytes, set[int]] = {}
    for record in records:
        homes.setdefault(record.key, set()).add(record.partition)
    assert all(len(partitions) == 1 for partitions in homes.values())
