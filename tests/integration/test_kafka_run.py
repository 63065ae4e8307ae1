"""What ``check`` finds in a file, ``stream-guard run kafka://...`` finds on a topic, through kills and restarts."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_guard.cli.demo import write_samples
from tests import processes
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster, Row

pytestmark = pytest.mark.kafka

SESSIONS = 1500  # about 23,000 events
QUICK = {"STREAM_GUARD_COMMIT__RECORDS": "500", "STREAM_GUARD_COMMIT__SECONDS": "0.05"}


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    write_samples(folder, SESSIONS)
    return folder


@pytest.fixture(scope="module")
def wanted(samples: Path) -> Counter[str]:
    """The alerts that ``check`` finds in the file."""
    command = ["check", samples / "events.jsonl", "--policy", samples / "policy.yaml", "--format", "jsonl"]
    done = processes.run(*command, fresh=True)
    found = Counter(json.loads(line)["alert_id"] for line in done.stdout.splitlines())
    assert len(found) > 300, done.stderr.decode()
    assert set(found.values()) == {1}
    return found


def rows(samples: Path) -> Iterator[Row]:
    """The events as a producer would send them: the session is the key, the time is the event's."""
    for line in (samples / "events.jsonl").read_bytes().splitlines():
        event = json.loads(line)
        yield Row(line, event["session_id"].encode(), round(event["time"] * 1000))


def start(samples: Path, source: str, *options: str) -> subprocess.Popen[str]:
    command = ["run", source, "--policy", samples / "policy.yaml", *options]
    return processes.start(*command, stderr=subprocess.PIPE, text=True, env=QUICK)


def finish(process: subprocess.Popen[str]) -> str:
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return said


def in_file(path: Path) -> Counter[str]:
    return Counter(json.loads(line)["alert_id"] for line in path.read_bytes().splitlines())


def on_topic(cluster: Cluster, topic: str) -> Counter[str]:
    return Counter(json.loads(record.value)["id"] for record in cluster.read(topic))


@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.long), 6])
def test_a_run_over_a_topic_finds_what_check_finds_in_the_file(
    cluster: Cluster, samples: Path, wanted: Counter[str], tmp_path: Path, partitions: int
) -> None:
    events, alerts = cluster.create(partitions), cluster.create(3)
    cluster.fill(events, rows(samples))
    target = f"kafka:{cluster.address}/{alerts}"
    said = finish(
        start(samples, cluster.url(events), "--no-follow", "-a", target, "-a", f"jsonl:{tmp_path / 'alerts.jsonl'}")
    )
    assert in_file(tmp_path / "alerts.jsonl") == on_topic(cluster, alerts) == wanted, said


@pytest.mark.long
def test_check_reads_topics_too(cluster: Cluster, samples: Path, wanted: Counter[str]) -> None:
    events = cluster.create(3)
    cluster.fill(events, rows(samples))
    done = processes.run("check", cluster.url(events), "--policy", samples / "policy.yaml", "--format", "jsonl")
    assert Counter(json.loads(line)["alert_id"] for line in done.stdout.splitlines()) == wanted


@pytest.mark.long
def test_ten_kills_lose_no_alert_and_repeat_one_only_with_its_id(
    cluster: Cluster, samples: Path, wanted: Counter[str], tmp_path: Path
) -> None:
    events, alerts = cluster.create(4), cluster.create(2)
    cluster.fill(events, rows(samples))
    options = ["--checkpoint", str(tmp_path / "progress.db"), "-a", f"jsonl:{tmp_path / 'alerts.jsonl'}"]
    options += ["-a", f"kafka:{cluster.address}/{alerts}", "--no-follow"]
    dice, kills = random.Random(10), 0
    while True:
        process = start(samples, cluster.url(events), *options)
        assert process.stderr is not None
        assert "metrics at" in process.stderr.readline()
        if kills == 10:
            finish(process)
            break
        time.sleep(dice.uniform(0.05, 0.4))  # the random moment
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
    assert in_file(tmp_path / "alerts.jsonl") == wanted
    assert set(on_topic(cluster, alerts)) == set(wanted)


@pytest.mark.long
def test_poison_and_a_record_of_20_mb_are_buried_and_the_run_goes_on(
    cluster: Cluster, samples: Path, wanted: Counter[str], tmp_path: Path
) -> None:
    events, dead = cluster.create(max_message_bytes=str(32 << 20)), cluster.create()
    good = [*rows(samples)]
    poison = [Row(b"\x00\xff not JSON", b"who"), Row(b'{"kind": "turn", "output": "' + b"x" * (20 << 20) + b'"}')]
    cluster.fill(events, [*good[:100], poison[0], *good[100:200], poison[1], *good[200:]])
    said = finish(
        start(
            samples,
            cluster.url(events),
            *("--no-follow", "-a", f"jsonl:{tmp_path / 'alerts.jsonl'}", "--dead-letters", cluster.url(dead)),
        )
    )
    assert in_file(tmp_path / "alerts.jsonl") == wanted
    assert "2 dead letters" in said
    first, second = (dict(record.headers) for record in cluster.read(dead))
    assert (first["stream_guard_origin"], first["stream_guard_offset"]) == (f"{events}/0".encode(), b"100")
    assert (second["stream_guard_class"], second["stream_guard_offset"]) == (b"oversize", b"201")
    assert int(second["stream_guard_size"]) > 20 << 20


@pytest.mark.long
def test_a_broker_that_is_killed_and_comes_back_costs_no_alert(
    own_broker: Broker, samples: Path, wanted: Counter[str], tmp_path: Path
) -> None:
    cluster = Cluster(own_broker.address())
    events, alerts = cluster.create(3), cluster.create()
    half = len(sent := [*rows(samples)]) // 2
    cluster.fill(events, sent[:half])
    path = tmp_path / "alerts.jsonl"
    options = ["--checkpoint", str(tmp_path / "progress.db"), "-a", f"kafka:{cluster.address}/{alerts}"]
    process = start(samples, cluster.url(events), *options, "-a", f"jsonl:{path}")
    assert process.stderr is not None
    assert "metrics at" in process.stderr.readline()
    own_broker.kill()
    own_broker.start()
    cluster.fill(events, sent[half:])
    end = time.monotonic() + 60
    while len(in_file(path)) < 0.8 * len(wanted) and time.monotonic() < end and process.poll() is None:
        time.sleep(0.2)
    process.terminate()
    said = finish(process)
    # Being stopped ends no session; the end of the input does.
    finish(start(samples, cluster.url(events), *options, "-a", f"jsonl:{path}", "--no-follow"))
    assert in_file(path) == wanted, said
    assert set(on_topic(cluster, alerts)) == set(wanted)
