"""Records out of plain batches: those that the client reads, in both builds; what is not plain is left to it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.ports import Record
from stream_guard.worker.fetched_records import make_record
from stream_guard.worker.kafka import plain_batches
from tests.c_modules import open_c_module

Unpack = Callable[[bytes, int, str, int, int], tuple[list[Record], int] | None]
Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
ORIGIN, LIMIT, HEAD = "events/3", 300, 40
CHECKSUM, ATTRIBUTES = 17, 21  # places in the head of a batch; the checksum is over all that follows it

CONTENTS = st.one_of(
    st.none(),
    st.binary(max_size=30),
    st.integers(0, 700).map(lambda size: b"x" * size),
    st.integers(3_000, 7_000).map(lambda size: bytes(number * number % 251 for number in range(size))),
)
HEADERS = st.lists(st.tuples(st.text(max_size=9), CONTENTS), max_size=3)
ROWS = st.lists(st.tuples(st.integers(0, 300), CONTENTS, CONTENTS, HEADERS), max_size=6)


@pytest.fixture(scope="module", params=["plain", "compiled"])
def unpack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Unpack:
    """The function of one build or the other."""
    module: Any = plain_batches
    if request.param == "compiled":
        module = open_c_module(plain_batches, tmp_path_factory.mktemp("c"))
    unpack: Unpack = module.unpack_plain
    return unpack


def batch(base: int, rows: Sequence[Row], *, codec: int = 0, transactional: bool = False) -> bytes:
    """One batch as a broker sends it, with gaps between its offsets as compaction leaves them."""
    builder = DefaultRecordBatchBuilder(2, codec, int(transactional), 7, 0, 0, 1 << 20)
    offset = -1
    for gap, key, value, headers in rows:
        offset += 1 + gap
        builder.append(offset, 1_700_000_000_000 + offset, key, value, list(headers))
    built = bytes(builder.build())
    return struct.pack(">q", base) + built[8:]


def client_records(data: bytes, start: int) -> tuple[list[Record], int]:
    """What the client makes of the bytes, as ours."""
    batches: Any = MemoryRecords(data)
    found = []
    while batches.has_next():
        read = batches.next_batch()
        found += [make_record(record, ORIGIN, LIMIT, HEAD) for record in read if record.offset >= start]
        start = read.next_offset
    return found, start


def joined(parts: Sequence[Sequence[Row]]) -> bytes:
    base, made = 100, []
    for rows in parts:
        made.append(batch(base, rows))
        base += sum(1 + row[0] for row in rows)
    return b"".join(made)


@pytest.mark.parametrize("head", [0, 1, 49, 50, 51, 2**40])
def test_a_head_that_is_longer_than_its_record_is_the_record(unpack: Unpack, head: int) -> None:
    data = batch(100, [(0, b"key", b"v" * 50, [])])
    unpacked = unpack(data, 0, ORIGIN, 10, head)
    assert unpacked is not None
    assert [(record.value, record.truncated) for record in unpacked[0]] == [(b"v" * min(head, 50), 50)]


@given(parts=st.lists(ROWS.filter(bool), max_size=3), start=st.integers(0, 1_000), cut=st.integers(0, 80))
def test_both_builds_make_the_records_that_the_client_makes(
    unpack: Unpack, parts: list[list[Row]], start: int, cut: int
) -> None:
    data = joined(parts)
    data = data[: len(data) - cut] if cut < len(data) else data
    assert unpack(data, start, ORIGIN, LIMIT, HEAD) == client_records(data, start)


@given(rows=ROWS.filter(bool), place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_batch_with_a_bit_turned_is_left_to_the_client_or_read_as_the_client_reads_it(
    unpack: Unpack, rows: list[Row], place: int, bit: int
) -> None:
    data = bytearray(batch(100, rows))
    data[place % len(data)] ^= 1 << bit
    unpacked = unpack(bytes(data), 0, ORIGIN, LIMIT, HEAD)
    assert unpacked is None or unpacked == client_records(bytes(data), 0)
    if place % len(data) >= ATTRIBUTES:
        assert unpacked is None


ROW: Row = (0, b"k", b"{}", [])


@pytest.mark.parametrize(
    "data",
    [batch(0, [ROW], codec=1), batch(0, [ROW], transactional=True), batch(0, [ROW]) + batch(1, [ROW], codec=1)],
    ids=["compressed", "in a transaction", "compressed behind a plain one"],
)
def test_what_is_not_plain_is_left_to_the_client(unpack: Unpack, data: bytes) -> None:
    assert unpack(data, 0, ORIGIN, LIMIT, HEAD) is None


def test_an_old_version_is_left_to_the_client(unpack: Unpack) -> None:
    builder = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    builder.append(0, 1_700_000_000_000, b"k", b"{}")
    assert unpack(bytes(builder.build()), 0, ORIGIN, LIMIT, HEAD) is None


def test_a_header_whose_name_is_no_text_is_left_to_the_client(unpack: Unpack) -> None:
    data = batch(0, [(0, None, b"{}", [("name", b"")])]).replace(b"name", b"\xff\xff\xff\xff")
    data = data[:CHECKSUM] + struct.pack(">I", calc_crc32c(data[ATTRIBUTES:])) + data[ATTRIBUTES:]
    assert unpack(data, 0, ORIGIN, LIMIT, HEAD) is None
