"""Hostile input: the worker goes on, or stops with a clear message, and skips nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster, Row
from tests.kafka.fixtures import require_broker
from tests.parts import require
from tests.worker.fleet import Fleet
from tests.worker.samples import checked, sample_rows

pytestmark = pytest.mark.kafka

ROOM = 16 << 10  # bytes that are left on the disk


def test_a_poison_record_is_a_dead_letter_and_the_next_record_is_processed(fleet: Fleet, policy: Path) -> None:
    rows = sample_rows(20)
    poison = [Row(b"\xff{", b"refund-00003", headers=(("trace", b"7"),)), Row(None, b"refund-00004")]
    fleet.cluster.fill(fleet.events, [*poison, *rows])
    fleet.start()
    fleet.wait_for(len(rows) + 2)
    (letter,) = fleet.cluster.read(fleet.letters)
    headers = dict(letter.headers)
    assert (letter.key, letter.value) == (b"refund-00003", b"\xff{")
    assert headers["trace"] == b"7"
    assert headers["stream_guard_origin"].decode().startswith(f"{fleet.events}/")
    assert set(fleet.alert_ids()) == set(checked(rows, policy))


def test_a_record_of_20_megabytes_is_a_dead_letter_that_says_its_size(fleet: Fleet, policy: Path) -> None:
    rows = sample_rows(20)
    huge = Row(b'{"text": "' + b"x" * 20_000_000 + b'"}', b"refund-00003")
    fleet.cluster.fill(fleet.events, [*rows[:100], huge, *rows[100:]])
    fleet.start()
    fleet.wait_for(len(rows) + 1)
    (letter,) = fleet.cluster.read(fleet.letters)
    headers = dict(letter.headers)
    assert headers["stream_guard_class"] == b"oversize"
    assert int(headers["stream_guard_size"]) == len(huge.value or b"")
    assert letter.value == (huge.value or b"")[: len(letter.value)]
    assert set(fleet.alert_ids()) == set(checked(rows, policy))


def test_a_client_that_leaves_its_group_for_good_ends_the_worker_with_a_reason(fleet: Fleet) -> None:
    name = fleet.start(process={"launcher": ("-m", "tests.worker.unknowing_worker"), "env": {"GROUPLESS": "1"}})
    assert fleet.end_of(name) == 3, fleet.log_of(name)
    assert "the client has left its group" in fleet.log_of(name)


def test_a_worker_that_its_group_refuses_ends_with_the_reason(fleet: Fleet) -> None:
    name = fleet.start(worker__session_timeout="2")  # seconds; the broker takes no less than 6
    assert fleet.end_of(name) == 3, fleet.log_of(name)
    assert "the client has left its group: InvalidSessionTimeoutError" in fleet.log_of(name)


def test_more_copies_than_brokers_are_waited_for_and_then_refused_with_a_reason(fleet: Fleet) -> None:
    name = fleet.start(kafka__patience="8", worker__replication_factor="3")
    assert fleet.end_of(name) == 3, fleet.log_of(name)
    assert "InvalidReplicationFactorError" in fleet.log_of(name)
    assert "the worker tries again" in fleet.log_of(name)
    assert "it was so for 8 s (kafka.patience)" in fleet.log_of(name)


@pytest.mark.long
def test_batches_that_unpack_too_far_are_dead_letters_and_the_worker_goes_on(fleet: Fleet, policy: Path) -> None:
    rows = sample_rows(20)
    bomb = [Row(b'{"pad": "' + b"x" * (7 << 20) + b'"}', b"refund-00003")] * 24  # each is within the limit
    fleet.cluster.fill(fleet.events, rows[:100])
    for codec in ("gzip", "lz4", "zstd"):
        fleet.cluster.fill_one_batch(fleet.events, bomb, codec)
    fleet.cluster.fill(fleet.events, rows[100:])
    fleet.start()
    fleet.wait_for(len(rows) + 3 * len(bomb))
    letters = fleet.cluster.read(fleet.letters)
    assert len(letters) == 3
    assert all(b"unpacks to more than" in dict(letter.headers)["stream_guard_reason"] for letter in letters)
    assert set(fleet.alert_ids()) == set(checked(rows, policy))


def test_a_broken_policy_stops_the_start_with_every_mistake_and_its_place(fleet: Fleet, policy: Path) -> None:
    policy.write_text(policy.read_text() + "  - {id: one, kind: no_such_kind}\n  - {id: two, kind: max_turns}\n")
    name = fleet.start()
    assert fleet.end_of(name) == 2
    log = fleet.log_of(name)
    assert f"{policy}:" in log
    assert "no_such_kind" in log
    assert '"two"' in log


@pytest.mark.long
def test_a_policy_is_changed_while_it_runs_and_a_bad_one_is_not_used(fleet: Fleet, policy: Path) -> None:
    rows = sample_rows(40)
    fleet.cluster.fill(fleet.events, rows)
    name = fleet.start()
    fleet.wait_for(len(rows))
    good = policy.read_text()
    policy.write_text(good + "  - {id: broken, kind: no_such_kind}\n")
    fleet.wait_until(lambda: "stays in force" in fleet.log_of(name))
    more = renamed(rows, b"second-")
    fleet.cluster.fill(fleet.events, more)
    fleet.wait_for(2 * len(rows))
    policy.write_text(good.replace("ledger_*", "l*"))
    fleet.wait_until(lambda: "replaces" in fleet.log_of(name))
    fleet.cluster.fill(fleet.events, renamed(rows, b"third--"))
    fleet.wait_for(3 * len(rows))
    versions: dict[str, set[str]] = {}
    for alert in fleet.sent():
        versions.setdefault(alert["subject"].partition("-")[0], set()).add(alert["data"]["policy_version"])
    assert versions["refund"] == versions["second"], "the bad policy was never used"
    assert len(versions["third"]) == 1
    assert versions["third"] != versions["second"]


def renamed(rows: list[Row], prefix: bytes) -> list[Row]:
    """The same sessions once more, under other names."""
    return [
        row._replace(
            value=(row.value or b"").replace(b"refund-0", prefix + b"0").replace(b"ev-", prefix[:2]),
            key=(row.key or b"").replace(b"refund-", prefix),
        )
        for row in rows
    ]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few megabytes, of the test's own."""
    require(os.geteuid() == 0 and shutil.which("mount"), "only root can mount a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", folder], capture_output=True, check=False)
    require(done.returncode == 0, f"a small disk cannot be mounted: {done.stderr.decode()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.long
def test_a_full_disk_below_the_states_stops_the_worker_with_a_reason_and_nothing_is_skipped(
    small_disk: Path, make_fleet: Callable[[], Fleet], policy: Path
) -> None:
    require_broker()
    rows = sample_rows(800)
    with Broker(small_disk / "broker") as broker:
        fleet = make_fleet()
        fleet.move_to(Cluster(broker.address()))
        fleet.cluster.fill(fleet.events, rows[:1000])
        name = fleet.start()
        fleet.wait_for(1000)
        fleet.kill(name)
        fleet.cluster.fill(fleet.events, rows[1000:])
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(max(0, shutil.disk_usage(small_disk).free - ROOM)))
        fleet.start(name, kafka__patience="5")
        assert fleet.end_of(name) == 3, fleet.log_of(name)
        assert re.search(r"states cannot be written.*look at the brokers|no broker has answered", fleet.log_of(name))
        ballast.unlink()
        broker.kill()  # it may have ended by itself
        broker.start()
        assert fleet.progress() < len(rows)
        fleet.start(name)
        fleet.wait_for(len(rows))
        assert set(fleet.alert_ids()) == set(checked(rows, policy))
        fleet.kill(name)
