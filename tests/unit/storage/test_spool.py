"""The spool: what was added is there after any end, in order; what is too much is refused."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

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


def test_without_free_file_numbers_the_spool_refuses_and_goes_on_afterwards(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", segment=100, patience=30)
    spool.add(b"x" * 200)
    with no_file_numbers(), pytest.raises(SpoolRefusal, match="Too many open"):
        spool.add(b"y" * 200)
    spool.add(b"z" * 200)
    assert bodies(spool) == [b"x" * 200, b"z" * 200]
    spool.close()
    again = Spool(tmp_path / "spool")
    assert bodies(again) == [b"x" * 200, b"z" * 200]
    again.close()


def test_a_file_that_gets_a_number_of_the_spool_is_not_touched(tmp_path: Path, monkeypatch: Any) -> None:
    """Another thread opens a file whenever the spool gives a number back, and the spool may open none."""
    other, taken, close, opens = tmp_path / "alerts.jsonl", list[int](), os.close, os.open
    other.write_bytes(b"an alert that was delivered\n" * 100)
    spool = Spool(tmp_path / "spool", segment=100, patience=30)
    spool.add(b"x" * 200)

    def close_and_lose(file: int) -> None:
        close(file)
        taken.append(opens(other, os.O_RDWR | os.O_APPEND))

    def open_nothing(path: Any, *how: Any) -> int:
        raise OSError(24, f"Too many open files: {path}, {how}")

    with monkeypatch.context() as patched:
        patched.setattr(os, "close", close_and_lose)
        patched.setattr(os, "open", open_nothing)
        for _ in range(2):
            with pytest.raises(SpoolRefusal, match="Too many open"):
                spool.add(b"y" * 200)
    spool.add(b"z" * 200)
    assert bodies(spool) == [b"x" * 200, b"z" * 200]
    assert other.stat().st_size == 2800
    spool.close()
    for file in taken:
        close(file)


@contextmanager
def no_file_numbers() -> Iterator[None]:
    """Use up the numbers that this process may give to files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = [os.open(os.devnull, os.O_RDWR)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(files[0], 64) + 16, hard))
    try:
        with suppress(OSError):
            while True:
                files.append(os.open(os.devnull, os.O_RDWR))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for file in files:
            os.close(file)


def test_a_disk_that_fails_twice_leaves_nothing_of_what_it_refused(tmp_path: Path, monkeypatch: Any) -> None:
    failing = [True]

    def flush(file: int) -> None:
        if failing:
            raise OSError(5, "Input/output error")
        os.fsync(file)

    def cut(file: int, size: int) -> None:
        if failing:
            raise OSError(5, "Input/output error")
        really_cut(file, size)

    really_cut = os.ftruncate
    spool = Spool(tmp_path, flush=flush)
    monkeypatch.setattr(os, "ftruncate", cut)
    for _ in range(2):
        with pytest.raises(SpoolRefusal, match="Input/output"):
            spool.add(b"lost, and longer than what is kept")
    failing.clear()
    spool.add(b"kept")
    assert bodies(spool) == [b"kept"]
    spool.close()
    again = Spool(tmp_path)
    assert bodies(again) == [b"kept"]
    assert again.name == spool.name
    again.close()
