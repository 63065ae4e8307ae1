"""A client's record becomes ours. Nothing is lost except what is over the limit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from stream_guard.kafka.unpacking import make_record
from stream_guard.ports import Record


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
