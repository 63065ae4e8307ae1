"""What a client fetched becomes our record: nothing of it is lost but what is over the limit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from stream_guard.ports import Record
from stream_guard.worker.fetched_records import TopicPartition, reader

PLACE = TopicPartition("events", 3)


def fetched(value: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = ()) -> Any:
    return SimpleNamespace(offset=7, key=b"s1", value=value, headers=headers)


def test_key_place_and_headers_come_along() -> None:
    read = reader(PLACE, 100)(PLACE, fetched(b"{}", (("trace", b"1"), ("empty", None))))
    assert read == Record(b"{}", "events/3", 7, key=b"s1", headers=(("trace", b"1"), ("empty", b"")))


def test_a_key_that_was_taken_back_is_an_empty_record() -> None:
    assert reader(PLACE, 100)(PLACE, fetched(None)) == Record(b"", "events/3", 7, key=b"s1")


def test_of_a_record_over_the_limit_the_head_is_kept_and_the_size_told() -> None:
    read = reader(PLACE, 10)(PLACE, fetched(b"x" * 11))
    assert (read.value, read.truncated) == (b"x" * 10, 11)
    assert reader(PLACE, 11)(PLACE, fetched(b"x" * 11)).truncated == 0
