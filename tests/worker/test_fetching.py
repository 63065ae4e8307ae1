"""A client's record becomes ours. Nothing is lost except what is over the limit."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.fetcher import READ_COMMITTED, FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.util import calc_crc32c

from stream_guard.ports import Record
from stream_guard.worker.fetched_records import TopicPartition, make_record
from stream_guard.worker.kafka.fetching import FetchedRecords, KeptRecords
from tests.property.test_plain_batches import ATTRIBUTES, CHECKSUM, Row, batch

SOURCE = TopicPartition("events", 3)
LAST = 23  # the place of the last offset in the head of a batch


def fetched(value: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = ()) -> Any:
    return SimpleNamespace(offset=7, key=b"s1", value=value, headers=headers)


def test_a_record_keeps_its_key_partition_offset_and_headers() -> None:
    record = make_record(fetched(b"{}", (("trace", b"1"), ("empty", None))), "events/3", 100, 100)
    assert record == Record(b"{}", "events/3", 7, key=b"s1", headers=(("trace", b"1"), ("empty", b"")))


def test_a_tombstone_is_an_empty_record() -> None:
    assert make_record(fetched(None), "events/3", 100, 100) == Record(b"", "events/3", 7, key=b"s1")


def test_a_record_over_the_limit_is_cut_to_its_head_and_has_its_size() -> None:
    record = make_record(fetched(b"x" * 11), "events/3", 10, 4)
    assert (record.value, record.truncated) == (b"x" * 4, 11)
    assert make_record(fetched(b"x" * 11), "events/3", 11, 4).truncated == 0


class Consumer:
    """One partition as the client assigns it, and what is fetched of it."""

    def __init__(self, data: bytes, start: int) -> None:
        self.state = SimpleNamespace(paused=False, position=start, consumed_to=self.move)
        assignment: Any = SimpleNamespace(active=True, state_value=lambda _: self.state)
        records = PartitionRecords(SOURCE, KeptRecords(data), [], start, None, None, True, READ_COMMITTED)
        self.result: Any = FetchResult(SOURCE, assignment=assignment, partition_records=records, backoff=0.1)
        self.result.getall = FetchedRecords(self.result, "events/3", 100).hand_out

    def move(self, position: int) -> None:
        self.state.position = position

    def poll(self, most: int | None) -> tuple[list[int], int, bool]:
        """Return the offsets that are handed out, the position behind them, and whether there are more."""
        records = self.result.getall(most)
        assert all(type(record) is Record and record.origin == "events/3" for record in records)
        return [record.position for record in records], self.state.position, self.result.has_more()


ROWS: list[Row] = [(0, b"k", b"{}", []), (0, b"k", b"[]", []), (2, b"k", b"{}", [])]


@pytest.mark.parametrize("codec", [0, 1], ids=["plain", "compressed"])
def test_the_position_follows_the_records_that_are_handed_out_over_gaps(codec: int) -> None:
    consumer = Consumer(batch(5, ROWS, codec=codec) + batch(10, ROWS, codec=codec), 6)
    assert consumer.poll(1) == ([6], 7, True)
    assert consumer.poll(2) == ([9, 10], 11, True)
    assert consumer.poll(None) == ([11, 14], 15, False)


def test_the_last_records_move_the_position_behind_their_batch() -> None:
    consumer = Consumer(batch(5, ROWS), 5)
    assert consumer.poll(3) == ([5, 6, 9], 10, False)


def test_the_position_follows_batches_that_have_no_records_left() -> None:
    data = batch(5, ROWS)
    told = data[ATTRIBUTES:LAST] + struct.pack(">i", 7) + data[LAST + 4 :]  # the batch ends at 12 and not at 9
    data = data[:CHECKSUM] + struct.pack(">I", calc_crc32c(told)) + told
    assert Consumer(data, 10).poll(5) == ([], 13, False)


def test_nothing_is_handed_out_when_the_position_has_moved() -> None:
    consumer = Consumer(batch(5, ROWS), 5)
    assert consumer.poll(1) == ([5], 6, True)
    consumer.move(5)
    assert consumer.poll(1) == ([], 5, False)


def test_a_damaged_batch_raises_what_the_client_raises() -> None:
    data = bytearray(batch(5, ROWS))
    data[-1] ^= 1
    with pytest.raises(CorruptRecordException):
        Consumer(bytes(data), 5).poll(5)
