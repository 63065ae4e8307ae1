"""Folders: every line of every file once, where it was left, whatever happens to them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from stream_guard.errors import SourceError
from stream_guard.sources import open_source
from stream_guard.sources.folder import FolderSource
from tests.unit.sources.following import STOPPED, Follower, append, values


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
