"""Files and pipes: every line once, where it was left, whatever happens to the files."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.errors import SourceError
from stream_guard.settings import DecodeSettings
from stream_guard.sources import open_source
from tests.unit.sources.following import Follower, append, values


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
