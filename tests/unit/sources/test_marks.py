"""A file that was replaced while nobody read it."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.sources import open_source
from stream_guard.sources.marks import MarkedSource

STOPPED = Flag()
STOPPED.set()


def read(target: Path, state: Any = None, *, follow: bool = False) -> tuple[list[bytes], Any]:
    """Read what there is; return the lines and what a checkpoint would keep."""
    positions, marks = state or ({}, {})
    source = open_source(str(target), follow=follow, positions=positions, marks=marks, stop=STOPPED)
    lines: list[bytes] = []
    for record in source:
        if record is None:
            break
        lines.append(bytes(record.value).removesuffix(b"\n"))
    assert isinstance(source, MarkedSource)
    kept = dict(source.positions()), dict(source.marks())
    source.close()
    return lines, kept


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(b"old %03d\n" % number for number in range(20)))
    return path


NEW = b"".join(b"new %03d\n" % number for number in range(30))


@pytest.mark.parametrize("follow", [False, True])
def test_a_file_that_grew_is_read_on(log: Path, follow: bool) -> None:
    _, state = read(log, follow=follow)
    with log.open("ab") as file:
        file.write(b"more\n")
    assert read(log, state, follow=follow)[0] == [b"more"]


@pytest.mark.parametrize("follow", [False, True])
def test_a_rotated_file_is_read_from_its_start_and_its_rest_first(log: Path, follow: bool) -> None:
    _, state = read(log, follow=follow)
    with log.open("ab") as file:
        file.write(b"tail\n")
    log.rename(log.with_name("events.jsonl.1"))
    log.write_bytes(NEW)
    lines, later = read(log, state, follow=follow)
    assert lines == [b"tail", *NEW.splitlines()]
    assert read(log, later, follow=follow)[0] == []


def test_an_emptied_file_is_read_from_its_start_although_it_is_longer_than_before(log: Path) -> None:
    _, state = read(log)
    with log.open("r+b") as file:
        file.truncate()
        file.write(NEW)
    assert read(log, state)[0] == NEW.splitlines()


def test_a_file_that_was_copied_back_is_read_on(log: Path) -> None:
    _, state = read(log)
    copy = log.with_name("copy")
    shutil.copy2(log, copy)
    copy.replace(log)
    with log.open("ab") as file:
        file.write(b"more\n")
    assert read(log, state)[0] == [b"more"]


def test_a_new_file_with_the_same_head_is_known_by_what_stands_before_the_position(tmp_path: Path) -> None:
    head = b"".join(b"a header that never changes %03d\n" % number for number in range(400))
    log = tmp_path / "events.jsonl"
    log.write_bytes(head + b"old 1\n")
    _, state = read(log)
    log.unlink()
    log.write_bytes(head + b"new 1\nnew 2\n")
    assert read(log, state)[0][-2:] == [b"new 1", b"new 2"]


def test_a_packed_file_that_was_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl.gz"
    log.write_bytes(gzip.compress(b"old 1\nold 2\n"))
    _, state = read(log)
    assert read(log, state)[0] == []
    log.write_bytes(gzip.compress(b"new 1\nnew 2\nnew 3\n"))
    assert read(log, state)[0] == [b"new 1", b"new 2", b"new 3"]


@pytest.mark.parametrize("follow", [False, True])
def test_a_folder_reads_on_under_the_other_name_and_the_new_file_from_its_start(tmp_path: Path, follow: bool) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = folder / "events.jsonl"
    log.write_bytes(b"old 1\nold 2\n")
    _, state = read(folder, follow=follow)
    with log.open("ab") as file:
        file.write(b"tail\n")
    log.rename(folder / "events-1.jsonl")
    log.write_bytes(NEW)
    lines, later = read(folder, state, follow=follow)
    assert sorted(lines) == sorted([b"tail", *NEW.splitlines()])
    assert read(folder, later, follow=follow)[0] == []


def test_a_checkpoint_without_marks_is_read_on_as_before(log: Path) -> None:
    _, (positions, _) = read(log)
    with log.open("ab") as file:
        file.write(b"more\n")
    assert read(log, (positions, {}))[0] == [b"more"]


def _is_a_line(line: bytes) -> bool:
    # A blank line is none, and what these begin may go on in the next line.
    return b"\n" not in line and line.lstrip()[:1] not in (b"", b"[", b"{")


@given(
    before=st.lists(st.binary(min_size=1, max_size=20).filter(_is_a_line), min_size=1, max_size=8),
    after=st.lists(st.binary(min_size=1, max_size=20).filter(_is_a_line), max_size=8),
)
def test_no_line_is_passed_over_whatever_replaces_the_file(
    tmp_path_factory: pytest.TempPathFactory, before: list[bytes], after: list[bytes]
) -> None:
    log = tmp_path_factory.mktemp("log") / "events.jsonl"
    log.write_bytes(b"".join(line + b"\n" for line in before))
    _, state = read(log)
    content = b"".join(line + b"\n" for line in after)
    log.write_bytes(content)
    grown = after[: len(before)] == before
    expected = after[len(before) :] if grown else after
    assert read(log, state)[0] == expected
