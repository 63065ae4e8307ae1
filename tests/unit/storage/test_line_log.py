"""Files of lines that only grow: whatever a crash leaves behind, the next run makes whole."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_guard.storage.line_log import LineLog


def identify(line: bytes) -> str:
    return line.split(b" ")[0].decode("utf-8", "replace")


def lines(*identities: str, size: int = 10) -> list[tuple[str, bytes]]:
    return [(identity, f"{identity} {'x' * size}".encode()) for identity in identities]


@contextmanager
def opened(path: Path, position: int | None = None) -> Iterator[LineLog]:
    log = LineLog(path, identify, position=position)
    try:
        yield log
    finally:
        log.close()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """A disk that is full at that size: the system refuses to write on, after writing what fits."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_lines_are_appended_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a old\n")
    with opened(path) as log:
        log.append([("a", b"a new"), ("b", b"b new")])
    assert path.read_bytes() == b"a old\na new\nb new\n"


@settings(max_examples=5 * settings().max_examples)
@given(st.data())
def test_crashes_at_any_byte_between_any_commits_give_the_same_file(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    sizes = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=20), label="sizes")
    work = [line for number, size in enumerate(sizes) for line in lines(f"id{number}", size=size)]
    committed, position = 0, 0  # the checkpoint: lines that need not be repeated, and what flush returned

    for _ in range(data.draw(st.integers(0, 4), label="crashes")):
        log = LineLog(path, identify, position=position)
        durable = path.stat().st_size
        reached = data.draw(st.integers(committed, len(work)), label="lines appended before the crash")
        for number in range(committed, reached):
            log.append([work[number]])
            if data.draw(st.booleans(), label="commit"):
                # Commits need not fall where an earlier run's did: the repeated work may be half done.
                committed, position, durable = number + 1, log.flush(), path.stat().st_size
        log.close()
        size = path.stat().st_size
        os.truncate(path, data.draw(st.just(size) | st.integers(durable, size), label="bytes that survived"))

    with opened(path, position) as log:
        log.append(work[committed:])
    assert path.read_bytes() == b"".join(line + b"\n" for _, line in work)


def test_a_second_crash_half_way_through_the_repetition_repeats_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with opened(path, position=0) as log:  # dies before its first checkpoint
        log.append(lines("a", "b", "c"))
    with opened(path, position=0) as log:  # commits after "a", and dies
        log.append(lines("a"))
        position = log.flush()
    with opened(path, position) as log:
        log.append(lines("b", "c", "d"))
        assert log.flush() == path.stat().st_size
    assert [identify(line) for line in path.read_bytes().splitlines()] == ["a", "b", "c", "d"]


def test_opening_and_committing_at_once_forgets_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with opened(path, position=0) as log:
        log.append(lines("a", "b"))
    with opened(path, position=0) as log:
        assert log.flush() == 0
    with opened(path, position=0) as log:
        log.append(lines("a", "b"))
    assert path.read_bytes().count(b"\n") == 2


def test_what_is_never_repeated_does_not_hold_the_position_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"abandoned x\n")
    with opened(path, position=0) as log:
        log.append(lines("new"))
        assert log.flush() == 0, "it may still come"
        for number in range(2000):
            log.append(lines(f"id{number}"))
        assert log.flush() == path.stat().st_size


def test_a_half_written_line_of_an_unknown_file_is_ended_and_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "somebody's notes"
    path.write_bytes(b"first\nsecond")
    with opened(path) as log:
        log.append(lines("a", size=0))
    assert path.read_bytes() == b"first\nsecond\na \n"


@pytest.mark.parametrize("content", [b"id1 x\n", b"id1 x\nnot a line end at the position either\n"])
def test_a_file_that_was_replaced_is_searched_from_its_beginning(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    with opened(path, position=20) as log:
        log.append(lines("id1", "id2", size=0))
    assert path.read_bytes() == content + b"id2 \n"


def test_a_batch_that_does_not_fit_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with opened(path) as log:
        log.append(lines("a"))
        before = path.read_bytes()
        with largest_file(len(before) + 100), pytest.raises(OSError, match="File too large"):
            log.append(lines("b", "c", "d", size=60))
        assert path.read_bytes() == before
        log.append(lines("b", "c", "d", size=60))
    assert path.read_bytes().count(b"\n") == 4


def test_the_file_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path / "log"), pytest.raises(BlockingIOError):
        LineLog(tmp_path / "log", identify)
    LineLog(tmp_path / "log", identify).close()


@pytest.mark.parametrize("move_away", [lambda path: path.rename(f"{path}.1"), Path.unlink])
def test_when_the_file_is_moved_away_a_new_one_is_begun(tmp_path: Path, move_away: Callable[[Path], object]) -> None:
    path = tmp_path / "log"
    with opened(path) as log:
        log.append(lines("a"))
        move_away(path)
        log.append(lines("b", size=0))
        assert log.flush() == len(b"b \n")
    assert path.read_bytes() == b"b \n"


def test_what_is_no_file_takes_lines_and_has_no_position() -> None:
    with opened(Path(os.devnull), position=12) as log:
        log.append(lines("a"))
        assert log.flush() == 0
