"""The spool: what was added is there after any end, in order; what is too much is refused."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.errors import StoreError
from stream_guard.storage.spool import Spool, SpoolFull, SpoolRefusal


def bodies(spool: Spool, position: int = 0) -> list[bytes]:
    return [found.body for found in spool.read(position)]


def test_records_come_back_in_order_from_every_position(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", segment=50)
    written = [b"x" * number for number in range(30)]
    for number, body in enumerate(written):
        spool.add(body, number)
    found = list(spool.read(0))
    assert [one.body for one in found] == written
    assert [one.sort for one in found] == list(range(30))
    for number, one in enumerate(found):
        assert bodies(spool, one.position) == written[number:]
        assert bodies(spool, one.next) == written[number + 1 :]
    spool.close()


def test_a_spool_that_is_opened_again_goes_on(tmp_path: Path) -> None:
    for number in range(3):
        spool = Spool(tmp_path)
        spool.add(b"%d" % number)
        spool.close()
    spool = Spool(tmp_path)
    assert bodies(spool) == [b"0", b"1", b"2"]
    spool.close()


@given(cut=st.integers(0, 60))
def test_a_record_that_was_cut_off_by_a_crash_is_cut_away(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("spool")
    spool = Spool(folder)
    spool.add(b"first")
    kept = spool.end
    spool.add(b"second" * 5)
    spool.close()
    (file,) = folder.glob("*.spool")
    whole = file.read_bytes()
    left = min(kept + cut, len(whole))
    file.write_bytes(whole[:left])
    again = Spool(folder)
    assert bodies(again) == [b"first"] + ([b"second" * 5] if left == len(whole) else [])
    again.add(b"third")
    assert bodies(again)[-1] == b"third"
    again.close()


def test_damage_in_the_middle_is_an_error_and_not_silence(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for _ in range(3):
        spool.add(b"abcdef")
    (file,) = tmp_path.glob("*.spool")
    data = bytearray(file.read_bytes())
    data[-8] ^= 1
    file.write_bytes(data)
    with pytest.raises(StoreError, match="damaged at byte 30"):
        bodies(spool)
    spool.close()


def test_a_full_spool_refuses_until_records_are_trimmed(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=200, segment=50)
    count = 6
    for _ in range(count):
        spool.add(b"x" * 20)
    with pytest.raises(SpoolFull, match="wait to be judged"):
        spool.add(b"x" * 20)
    assert len(bodies(spool)) == count
    spool.trim(spool.end)
    spool.add(b"y")
    assert bodies(spool)[-1] == b"y"
    assert len(bodies(spool)) < count
    spool.close()


def test_a_slow_disk_refuses_what_would_have_to_wait(tmp_path: Path) -> None:
    goes_on, is_slow = Event(), Event()

    def flush(_file: int) -> None:
        is_slow.set()
        goes_on.wait()

    spool = Spool(tmp_path, max_waiting=100, flush=flush)
    adding = Thread(target=spool.add, args=(b"x" * 80,))
    adding.start()
    is_slow.wait()
    with pytest.raises(SpoolRefusal, match="wait for the disk"):
        spool.add(b"y" * 80)
    goes_on.set()
    adding.join()
    assert bodies(spool) == [b"x" * 80]
    spool.close()


def test_a_disk_that_does_not_answer_is_given_up_on(tmp_path: Path) -> None:
    goes_on = Event()

    def flush(_file: int) -> None:
        goes_on.wait()

    spool = Spool(tmp_path, patience=0.01, flush=flush)
    with pytest.raises(SpoolRefusal, match="took longer"):
        spool.add(b"x")
    goes_on.set()
    spool.close()


def test_what_the_disk_refuses_is_not_acknowledged_and_leaves_nothing(tmp_path: Path) -> None:
    refuses = True

    def flush(file: int) -> None:
        if refuses:
            raise OSError(28, "No space left on device")
        os.fsync(file)

    spool = Spool(tmp_path, flush=flush)
    with pytest.raises(SpoolRefusal, match="No space left"):
        spool.add(b"lost")
    refuses = False
    spool.add(b"kept")
    assert bodies(spool) == [b"kept"]
    spool.close()


def test_two_processes_cannot_share_a_spool(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with pytest.raises(StoreError, match="another process"):
        Spool(tmp_path)
    spool.close()
