"""Batches of records, as a worker fetches them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from stream_guard.kafka.poison import PoisonedBatch, poisoned_record
from stream_guard.ports import Record


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


FetchedBatch: TypeAlias = Mapping[TopicPartition, Sequence[Record]]
"""The records of one fetch, by partition, in the order of their offsets."""


def make_record(fetched: Any, origin: str, limit: int, head: int) -> Record:
    """Return our record of a client's. One over the limit is cut to its head."""
    value, headers = fetched.value or b"", fetched.headers  # a tombstone has no value
    ours = tuple((name, content or b"") for name, content in headers) if headers else ()
    size = len(value)
    if not size and type(fetched.value) is PoisonedBatch:
        return poisoned_record(fetched.value, origin, fetched.offset)
    if size <= limit:
        return Record(value, origin, fetched.offset, 0, fetched.key, ours)
    return Record(value[:head], origin, fetched.offset, 0, fetched.key, ours, size)
