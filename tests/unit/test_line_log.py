"""Files of lines that only grow: whatever a crash leaves behind, the next run makes whole."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.line_log import LineLog


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


@given(st.data())
def test_a_crash_at_any_byte_and_a_replay_give_the_same_file(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    sizes = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=20), label="sizes")
    work = [line for number, size in enumerate(sizes) for line in lines(f"id{number}", size=size)]
    committed = data.draw(st.integers(0, len(work)), label="lines before the checkpoint")
    with opened(path) as log:
        log.append(work[:committed])
        position = log.flush()
        log.append(work[committed:])
    whole = path.read_bytes()
    os.truncate(path, data.draw(st.integers(position, len(whole)), label="bytes that survived"))

    with opened(path, position) as log:
        for line in work[committed:]:
            log.append([line])
        assert log.flush() == len(whole)
    assert path.read_bytes() == whole


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
