"""Lines as records, in the compiled build: the same records as the plain one makes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard import Record
from stream_guard.sources import line_records as plain
from tests.c_modules import open_c_module

LineRecords = Callable[[bytes, int, str, int, int, int, bytes], list[Record]]


@pytest.fixture(scope="module")
def line_records(tmp_path_factory: pytest.TempPathFactory) -> LineRecords:
    """The compiled form."""
    made: LineRecords = open_c_module(plain, tmp_path_factory.mktemp("c")).line_records
    return made


@given(
    pieces=st.lists(st.sampled_from([b"\n", b"a", b"{}", b"\r\n", b"\0", b"long" * 300, "é".encode()]), max_size=12),
    start=st.one_of(st.integers(-12, 12), st.sampled_from([-(2**63), -(10**9), 10**9, 2**63 - 1])),
    place=st.tuples(st.integers(0, 2**40), st.integers(0, 2**40), st.sampled_from([0, 1])),
    needed=st.lists(st.sampled_from([0, 1, 255]), max_size=15).map(bytes),
)
def test_lines_become_the_same_records(
    line_records: LineRecords, pieces: list[bytes], start: int, place: tuple[int, int, int], needed: bytes
) -> None:
    chunk = b"".join(pieces)
    records = line_records(chunk, start, "file", *place, needed)
    expected, position, line = list[Record](), place[0], place[1]
    for text in chunk[start:].split(b"\n")[:-1]:
        line += place[2]
        left_out = needed[len(expected) : len(expected) + 1] == b"\0"
        expected.append(Record(b"") if left_out else Record(text + b"\n", "file", position, line))
        position += len(text) + 1
    assert records == expected == plain.line_records(chunk, start, "file", *place, needed)
    assert [repr(record) for record in records] == [repr(record) for record in expected]


def test_bytes_are_asked_for(line_records: LineRecords) -> None:
    with pytest.raises(TypeError):
        line_records("text", 0, "file", 0, 0, 1, b"")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        line_records(b"text", 0, "file", 0, 0, 1, None)  # type: ignore[arg-type]
