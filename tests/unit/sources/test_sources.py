"""Files, folders and pipes: every line once, where it was left, whatever happens to the files."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event as Flag
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.errors import SourceError
from stream_guard.ports import Record, Source
from stream_guard.settings import DecodeSettings
from stream_guard.sources import open_source
from stream_guard.sources.folder import FolderSource

STOPPED = Flag()
STOPPED.set()  # nobody waits in these tests: what is there is yielded, and then None at once


def values(source: Source) -> list[bytes]:
    found = [record.value.rstrip(b"\n") for record in source if record is not None]
    source.close()
    return found


class Follower:
    """Takes what there is right now from a source that never ends."""

    opened: ClassVar[list[Source]] = []

    def __init__(self, target: Path, positions: dict[str, int] | None = None) -> None:
        self.source = open_source(str(target), follow=True, positions=positions, stop=STOPPED)
        self.opened.append(self.source)
        self._records: Iterator[Record | None] = iter(self.source)

    def now(self) -> list[bytes]:
        found = []
        while (record := next(self._records)) is not None:
            found.append(record.value.rstrip(b"\n"))
        return found


@pytest.fixture(autouse=True)
def _close_followers() -> Iterator[None]:
    yield
    while Follower.opened:
        Follower.opened.pop().close()


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_file_gives_its_lines_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\n\ntwo\nlast without end")
    records = [record for record in open_source(str(path)) if record]
    assert [(r.value, r.position, r.line) for r in records] == [
        (b"one\n", 0, 1),
        (b"two\n", 5, 3),
        (b"last without end", 9, 4),
    ]
    assert {record.origin for record in records} == {str(path)}


@pytest.mark.parametrize("target", ["missing.jsonl", "missing folder/x.jsonl"])
def test_a_missing_target_says_what_to_give(target: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="give a file, a folder, or - for standard input"):
        open_source(str(tmp_path / target))


def test_a_line_over_the_limit_is_cut_and_the_next_one_is_whole(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_bytes(b"x" * 5000 + b"\nnext\n")
    [cut, whole] = open_source(str(tmp_path / "e.jsonl"), limits=DecodeSettings(max_record_bytes=1000))
    assert cut is not None
    assert (len(cut.value), cut.truncated) == (1000, 5000)
    assert whole is not None
    assert (whole.value, whole.position, whole.line) == (b"next\n", 5001, 2)


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
@given(st.data())
def test_reading_stopped_anywhere_and_taken_up_again_misses_and_repeats_nothing(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("files") / f"e{suffix}"
    content = data.draw(st.lists(st.from_regex(rb"[a-z]{0,30}", fullmatch=True), max_size=20).map(b"\n".join))
    path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    whole = [record for record in open_source(str(path)) if record]
    stop_after = data.draw(st.integers(0, len(whole)))

    source = open_source(str(path))
    first = [record for record, _ in zip(source, range(stop_after), strict=False) if record]
    positions = dict(source.positions())
    source.close()
    # zip takes one record too many; a checkpoint is taken before that.
    positions[str(path)] = whole[stop_after].position if stop_after < len(whole) else len(content)
    rest = [record for record in open_source(str(path), positions=positions) if record]
    assert first + rest == whole


def test_positions_stand_behind_the_last_record_taken(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"one\ntwo\nthree\n")
    source = open_source(str(path))
    taken = iter(source)
    next(taken)
    next(taken)
    assert source.positions() == {str(path): 8}
    source.close()


def test_a_followed_file_gives_new_lines_when_they_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"one\ntw")
    follower = Follower(path)
    assert follower.now() == [b"one"]
    assert follower.now() == []
    append(path, b"o\nthr")
    assert follower.now() == [b"two"]
    assert follower.source.positions() == {str(path): 8}
    append(path, b"ee\n")
    assert follower.now() == [b"three"]


def test_a_followed_file_that_is_rotated_is_read_to_its_end_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"one\n")
    follower = Follower(path)
    assert follower.now() == [b"one"]
    append(path, b"two\nhalf")
    path.rename(tmp_path / "e.jsonl.1")
    path.write_bytes(b"new\n")
    assert follower.now() == [b"two", b"half", b"new"]
    assert "was replaced" in caplog.text
    assert follower.source.positions() == {str(path): 4}


@pytest.mark.parametrize("content", [b"new\n", b"a new line that is longer\n"])
def test_a_followed_file_that_is_emptied_is_read_from_its_beginning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"one\ntwo\n")
    follower = Follower(path)
    assert follower.now() == [b"one", b"two"]
    path.write_bytes(content)
    assert follower.now()[-1:] == [content.rstrip()]
    assert "from its beginning" in caplog.text


def test_a_followed_file_that_is_moved_away_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"one\n")
    follower = Follower(path)
    assert follower.now() == [b"one"]
    path.unlink()
    assert follower.now() == []
    (tmp_path / "other").write_bytes(b"back\n")
    (tmp_path / "other").rename(path)
    assert follower.now() == [b"back"]


@pytest.mark.parametrize("content", [b"short\n", b"entirely other content\nof some length\n"])
def test_a_file_replaced_between_two_runs_is_read_from_its_beginning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(content)
    assert values(open_source(str(path), positions={str(path): 12})) == content.splitlines()
    assert "from its beginning" in caplog.text


def test_a_last_line_that_got_its_end_later_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"one\nlast")
    source = open_source(str(path))
    assert [record.value for record in source if record] == [b"one\n", b"last"]
    append(path, b"\nnew\n")
    assert values(open_source(str(path), positions=dict(source.positions()))) == [b"new"]


def test_a_gzip_file_that_ends_too_early_gives_what_it_has_and_then_says_so(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl.gz"
    packed = gzip.compress(b"".join(b"line %d\n" % n for n in range(50_000)))
    path.write_bytes(packed[: len(packed) // 2])
    records = iter(open_source(str(path)))
    for number in range(1000):
        record = next(records)
        assert record is not None
        assert record.value == b"line %d\n" % number
    with pytest.raises(SourceError, match="cannot be read beyond byte"):
        list(records)


def test_a_file_that_is_no_gzip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl.gz"
    path.write_bytes(b"one\n")
    with pytest.raises(SourceError, match="Not a gzipped file"):
        values(open_source(str(path)))


def test_a_single_gzip_file_cannot_be_followed(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl.gz"
    path.write_bytes(gzip.compress(b"one\n"))
    with pytest.raises(SourceError, match="cannot be followed"):
        open_source(str(path), follow=True)


def test_a_folder_gives_its_files_by_name_and_ignores_the_rest(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_bytes(b"b1\nb2")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"a1\n"))
    (tmp_path / "c.txt").write_bytes(b"no\n")
    (tmp_path / ".hidden.jsonl").write_bytes(b"no\n")
    (tmp_path / "inner.jsonl").mkdir()
    assert values(open_source(str(tmp_path))) == [b"a1", b"b1", b"b2"]


def test_a_folder_with_nothing_to_read_is_refused_unless_it_is_followed(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no file in it, or in a folder below, ends in \.jsonl"):
        open_source(str(tmp_path))
    assert Follower(tmp_path).now() == []


def test_a_followed_folder_finds_new_files_and_new_lines(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    assert follower.now() == []
    (tmp_path / "b.jsonl").write_bytes(b"b1\nb")
    assert follower.now() == [b"b1"]
    (tmp_path / "a.jsonl").write_bytes(b"a1\n")
    append(tmp_path / "b.jsonl", b"2\n")
    assert follower.now() == [b"a1", b"b2"]
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(b"c1\n"))
    assert follower.now() == [b"c1"]
    assert follower.source.positions() == {
        str(tmp_path / name): size for name, size in [("a.jsonl", 3), ("b.jsonl", 6), ("c.jsonl.gz", 3)]
    }


def test_a_folder_is_taken_up_where_it_was_left(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"a1\na2\n")
    (tmp_path / "b.jsonl").write_bytes(b"b1\n")
    positions = {str(tmp_path / "a.jsonl"): 3, str(tmp_path / "gone.jsonl"): 7}
    follower = Follower(tmp_path, positions)
    assert follower.now() == [b"a2", b"b1"]
    assert follower.source.positions()[str(tmp_path / "gone.jsonl")] == 7


def test_a_rotated_file_in_a_folder_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"a1\n")
    follower = Follower(tmp_path)
    assert follower.now() == [b"a1"]
    append(path, b"a2\nhalf")
    path.rename(tmp_path / "a.jsonl.1")
    path.write_bytes(b"new\n")
    assert follower.now() == [b"a2", b"half", b"new"]
    assert follower.now() == []
    assert follower.source.positions() == {str(path): 4}


def test_a_renamed_file_in_a_folder_is_read_on(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"a1\n")
    follower = Follower(tmp_path)
    assert follower.now() == [b"a1"]
    (tmp_path / "a.jsonl").rename(tmp_path / "z.jsonl")
    append(tmp_path / "z.jsonl", b"a2\n")
    assert follower.now() == [b"a2"]
    assert follower.source.positions() == {str(tmp_path / "z.jsonl"): 6}


def test_a_file_in_a_folder_that_is_emptied_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"a1\na2\n")
    follower = Follower(tmp_path)
    assert follower.now() == [b"a1", b"a2"]
    path.write_bytes(b"b1\n")
    assert follower.now() == [b"b1"]


def test_a_file_that_is_removed_from_a_folder_is_forgotten(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"a1\nhalf")
    follower = Follower(tmp_path)
    assert follower.now() == [b"a1"]
    path.unlink()
    assert follower.now() == [b"half"]
    assert "is gone" in caplog.text
    assert follower.source.positions() == {}


def test_a_followed_folder_reads_the_folders_below_it(tmp_path: Path) -> None:
    project = tmp_path / "-home-me-shop"
    (project / "s1" / "subagents").mkdir(parents=True)
    (project / "s1.jsonl").write_bytes(b"a1\n")
    (project / "s1" / "subagents" / "agent-7.jsonl").write_bytes(b"sub1\n")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "no.jsonl").write_bytes(b"no\n")
    follower = Follower(tmp_path)
    assert follower.now() == [b"sub1", b"a1"]
    later = tmp_path / "another" / "deep"
    later.mkdir(parents=True)
    (later / "s2.jsonl").write_bytes(b"b1\nhalf")
    append(project / "s1.jsonl", b"a2\n")
    assert follower.now() == [b"a2", b"b1"]
    assert follower.source.positions()[str(later / "s2.jsonl")] == 3


def test_a_nested_folder_that_is_removed_or_moved_stops_nothing(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "a.jsonl").write_bytes(b"a1\n")
    (tmp_path / "b.jsonl").write_bytes(b"b1\n")
    follower = Follower(tmp_path)
    assert follower.now() == [b"b1", b"a1"]
    (tmp_path / "other").mkdir()
    inner.rename(tmp_path / "other" / "inner")
    append(tmp_path / "other" / "inner" / "a.jsonl", b"a2\n")
    assert follower.now() == [b"a2"]
    (tmp_path / "other" / "inner" / "a.jsonl").unlink()
    (tmp_path / "other" / "inner").rmdir()
    append(tmp_path / "b.jsonl", b"b2\n")
    assert follower.now() == [b"b2"]


def test_a_nested_folder_is_taken_up_where_it_was_left(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    path = tmp_path / "inner" / "a.jsonl"
    path.write_bytes(b"a1\na2\n")
    assert Follower(tmp_path, {str(path): 3}).now() == [b"a2"]


def test_a_link_to_a_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.jsonl").write_bytes(b"secret\n")
    (folder / "a.jsonl").write_bytes(b"a1\n")
    (folder / "out").symlink_to(tmp_path / "outside")
    (folder / "round").symlink_to(folder)
    (folder / "itself").symlink_to(folder / "itself")
    source = FolderSource(folder, follow=False, limit=1000, positions={}, stop=STOPPED)
    assert values(source) == [b"a1"]
    assert all("link to a folder" in source.problems[str(folder / name)] for name in ("out", "round"))


def test_an_empty_followed_folder_says_that_it_waits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "run.json").write_bytes(b"{}")
    assert Follower(tmp_path).now() == []
    assert "waiting for the first one" in caplog.text
    assert "1 files that end in .json are not followed" in caplog.text


def test_a_folder_is_read_with_those_below_it(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"a1\n")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "b.jsonl").write_bytes(b"b1\n")
    assert values(open_source(str(tmp_path))) == [b"a1", b"b1"]


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret.jsonl").write_bytes(b"secret\n")
    (folder / "a.jsonl").write_bytes(b"a1\n")
    (folder / "b.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (folder / "c.jsonl").symlink_to(folder / "a.jsonl")
    (folder / "d.jsonl").symlink_to(folder / "nothing")
    source = FolderSource(folder, follow=False, limit=1000, positions={}, stop=STOPPED)
    assert values(source) == [b"a1"], "a file with two names is read once"
    assert "leads out of the folder" in source.problems[str(folder / "b.jsonl")]
    assert str(folder / "d.jsonl") in source.problems


def test_a_bad_file_in_a_folder_does_not_keep_the_others_from_being_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(b"not gzip\n")
    (tmp_path / "b.jsonl").write_bytes(b"b1\n")
    os.mkfifo(tmp_path / "c.jsonl")
    source = FolderSource(tmp_path, follow=True, limit=1000, positions={}, stop=STOPPED)
    records = iter(source)
    record = next(records)
    assert record is not None
    assert record.value == b"b1\n"
    assert next(records) is None
    assert "Not a gzipped file" in source.problems[str(tmp_path / "a.jsonl.gz")]
    assert "not a regular file" in source.problems[str(tmp_path / "c.jsonl")]
    # It is looked at again once it has changed.
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"a1\n"))
    record = next(records)
    assert record is not None
    assert record.value == b"a1\n"


def test_standard_input_is_read_to_its_end_and_waits_in_between(root: Path) -> None:
    script = (
        "import sys\n"
        "from stream_guard.sources import open_source\n"
        "for record in open_source('-'):\n"
        "    print('nothing' if record is None else record.value.decode().rstrip(), flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdin.write(b"one\ntw")
        reader.stdin.flush()
        assert reader.stdout.readline() == b"one\n"
        assert reader.stdout.readline() == b"nothing\n"
        reader.stdin.write(b"o\nlast")
        reader.stdin.close()
        said = reader.stdout.read().splitlines()
    assert [line for line in said if line != b"nothing"] == [b"two", b"last"]


def test_a_named_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen(["/bin/sh", "-c", f"printf 'one\\ntwo' > '{path}'"]):
        source = open_source(str(path))
        assert values(source) == [b"one", b"two"]
        assert source.positions() == {}
