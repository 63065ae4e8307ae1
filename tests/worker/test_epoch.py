"""Epochs: rows that a former owner of a partition writes do not count."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from stream_guard.worker.changelog import EpochFence
from tests.worker.fleet import Fleet
from tests.worker.outcome import account, compare, poisoned, undisturbed
from tests.worker.samples import checked, sample_rows

Written = tuple[int, bytes, list[tuple[str, bytes]]]


def read(fence: EpochFence, rows: list[Written], start: int = 0) -> list[int]:
    """The offsets of the rows that count, of those from an offset on."""
    return [offset for offset, key, headers in rows[start:] if fence.admits(0, offset, key, headers)]


def write(rows: list[Written], fence: EpochFence, *keys: bytes) -> None:
    rows += [(len(rows) + place, key, fence.headers(0)) for place, key in enumerate(keys)]


def test_rows_of_an_earlier_owner_do_not_count_once_the_next_has_written() -> None:
    rows: list[Written] = [(0, b"before there were owners", [])]
    frozen, owner = EpochFence(), EpochFence()
    read(frozen, rows)
    frozen.begin(0)
    write(rows, frozen, b"owner", b"a", b"b")
    read(owner, rows)
    owner.begin(0)
    write(rows, frozen, b"b")  # before the next epoch begins: it counts
    write(rows, owner, b"owner", b"a")
    write(rows, frozen, b"a", b"c")
    write(rows, owner, b"b")
    successor = EpochFence()
    assert read(successor, rows) == [0, 1, 2, 3, 4, 5, 6, 9]
    assert successor.take_stale(0) == {b"a", b"c"}, "their last rows do not count, and compaction keeps only the last"
    successor.begin(0)
    assert successor.headers(0) > owner.headers(0)


def test_a_second_pass_from_any_offset_admits_the_same_rows() -> None:
    rows: list[Written] = []
    owners = [EpochFence()]
    for _ in range(6):
        owners.append(EpochFence())
        read(owners[-1], rows)
        owners[-1].begin(0)
        write(rows, owners[-1], b"owner", b"x")
        write(rows, owners[-2], b"y")
    wanted, again = read(EpochFence(), rows), EpochFence()
    read(again, rows)
    for start in range(len(rows)):
        assert read(again, rows, start) == [offset for offset in wanted if offset >= start]


def test_an_owner_begins_a_higher_epoch_each_time_also_when_it_has_read_nothing_new() -> None:
    fence = EpochFence()
    headers = []
    for _ in range(3):
        fence.begin(0)
        headers.append(fence.headers(0))
    assert headers == sorted(headers)
    assert len({str(written) for written in headers}) == 3


@pytest.mark.long
@pytest.mark.kafka
def test_a_worker_that_is_frozen_and_continues_later_spoils_nothing(
    fleet: Fleet, policy: Path, record_property: Callable[[str, object], None]
) -> None:
    rows, dice = poisoned(1_500), random.Random(11)
    wanted = undisturbed(rows, policy)
    names = [fleet.start() for _ in range(3)]
    fleet.wait_until(lambda: all("a worker of group" in fleet.log_of(name) for name in names))
    filling = Thread(target=fleet.cluster.fill, args=(fleet.events, rows[:12_000]))
    filling.start()
    fleet.wait_for(dice.randint(500, 3_000))
    victim = fleet.workers[dice.choice(names)]
    victim.send_signal(signal.SIGSTOP)
    filling.join()
    fleet.wait_for(12_000)  # the others have taken over its partitions
    victim.send_signal(signal.SIGCONT)
    fleet.cluster.fill(fleet.events, rows[12_000:16_000])
    time.sleep(dice.uniform(0.5, 2.0))  # the random moment
    others = [name for name in names if fleet.workers[name] is not victim]
    fleet.kill(others[0])  # so that its successor reads the rows of all owners
    fleet.start(others[0])
    fleet.cluster.fill(fleet.events, rows[16_000:])
    fleet.wait_for(len(rows))
    compare(account(fleet, rows), wanted, record_property)


@pytest.mark.kafka
@pytest.mark.long
def test_a_worker_that_is_frozen_between_recovery_and_claim_writes_no_row_when_it_continues(
    fleet: Fleet, tmp_path: Path, policy: Path
) -> None:
    rows, once = sample_rows(300), tmp_path / "freeze-once"
    once.touch()
    third = len(rows) // 3
    frozen = fleet.start(
        "frozen", process={"launcher": ("-m", "tests.worker.freezing_worker"), "env": {"FREEZE_ONCE": str(once)}}
    )
    fleet.wait_until(lambda: not once.exists())
    other = fleet.start("other")
    fleet.cluster.fill(fleet.events, rows[:third])
    fleet.wait_for(third)  # the other has claimed all partitions
    fleet.workers[frozen].send_signal(signal.SIGCONT)
    fleet.cluster.fill(fleet.events, rows[third : 2 * third])
    fleet.wait_until(lambda: "another worker is the owner of partition" in fleet.log_of(frozen))
    fleet.wait_for(2 * third)
    fleet.kill(other)  # so that the one that was frozen reads the rows of all owners
    fleet.cluster.fill(fleet.events, rows[2 * third :])
    fleet.wait_for(len(rows))
    assert set(account(fleet, rows).alerts) == set(checked(rows, policy))
