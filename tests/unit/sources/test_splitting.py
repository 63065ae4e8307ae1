"""Lines out of chunks: the same whatever the chunks, and never more in memory than the limit."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.ports import Record
from stream_guard.sources.splitting import HEAD, LineSplitter


def split(data: bytes, cuts: list[int], limit: int) -> list[Record]:
    lines = LineSplitter("file", limit)
    records = []
    edges = [0, *sorted(cuts), len(data)]
    for start, end in pairwise(edges):
        # The source never hands over more than this.
        for at in range(start, end, lines.chunk):
            records += list(lines.split(data[at : min(end, at + lines.chunk)]))
    records += list(lines.last())
    assert lines.position == lines.offset == len(data)
    return records


def naive(data: bytes, limit: int) -> list[Record]:
    records, position = [], 0
    for number, value in enumerate(data.split(b"\n"), 1):
        whole = value + b"\n" if position + len(value) < len(data) else value
        if whole and len(value) > limit:
            records.append(Record(value[: min(limit, HEAD)], "file", position, number, truncated=len(value)))
        elif whole.strip():  # a blank line is no record
            records.append(Record(whole, "file", position, number))
        position += len(whole)
    return records


@given(st.data())
def test_records_are_the_lines_however_the_bytes_arrive(data: st.DataObject) -> None:
    blank = st.text(" \t\r\n", max_size=5).map(str.encode)
    text = data.draw(st.lists(st.binary(max_size=12) | st.just(b"x" * 40) | blank, max_size=12).map(b"\n".join))
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    limit = data.draw(st.integers(1, 50))
    assert split(text, cuts, limit) == naive(text, limit)


def test_a_line_exactly_at_the_limit_is_whole() -> None:
    [whole, over] = split(b"x" * 100 + b"\n" + b"y" * 101 + b"\n", [], 100)
    assert (whole.value, whole.truncated) == (b"x" * 100 + b"\n", 0)
    assert (over.value, over.truncated) == (b"y" * 100, 101)


def test_a_huge_line_is_passed_over_in_little_memory() -> None:
    lines = LineSplitter("file", 1 << 20)
    chunk = b"x" * lines.chunk
    tracemalloc.start()
    for _ in range(400):
        assert not list(lines.split(chunk))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    [huge, after] = [*lines.split(b"end\nnext\n")]
    assert peak < 4 << 20
    assert len(huge.value) == HEAD
    assert huge.truncated == 400 * len(chunk) + 3
    assert (after.value, after.position, after.line) == (b"next\n", huge.truncated + 1, 2)


def test_the_position_is_behind_the_record_that_was_taken_last() -> None:
    lines = LineSplitter("file", 100)
    records = lines.split(b"one\ntwo\nthree")
    assert lines.position == 0
    for end in (4, 8):
        next(records)
        assert lines.position == end
    with pytest.raises(StopIteration):
        next(records)
    assert (lines.position, lines.offset) == (8, 13)


def test_lines_nobody_counted_have_no_number() -> None:
    lines = LineSplitter("file", 100)
    lines.restart(1000, None)
    assert [record.line for record in lines.split(b"a\nb\n")] == [0, 0]


def test_blank_lines_are_counted_and_are_no_records() -> None:
    lines = LineSplitter("file", 100)
    batches = [*lines.batches(b"\n" * 50 + b"one\n \t\r\n\ntwo\n\n", 1)]
    assert [(record.value, record.position, record.line) for [record] in batches] == [
        (b"one\n", 50, 51),
        (b"two\n", 59, 54),
    ]
    assert (lines.position, lines.line) == (64, 55)


@given(st.lists(st.sampled_from([b"a", b"bb", b"", b" "]), max_size=30), st.integers(1, 7))
def test_the_position_behind_each_batch_repeats_nothing(lines: list[bytes], most: int) -> None:
    text = b"".join(line + b"\n" for line in lines)
    splitter = LineSplitter("file", 100)
    taken: list[bytes] = []
    for batch in splitter.batches(text, most):
        taken += [record.value for record in batch]
        again = LineSplitter("file", 100)
        again.restart(splitter.position, splitter.line)
        rest = [*again.split(text[splitter.position :])]
        assert taken + [record.value for record in rest] == [line + b"\n" for line in lines if line.strip()]
        assert splitter.line == text[: splitter.position].count(b"\n")
    assert splitter.position == len(text)
