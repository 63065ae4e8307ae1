"""Partitions of topics, and what was fetched from them as records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from stream_guard.ports import Record
from stream_guard.sources.splitting import HEAD


class TopicPartition(NamedTuple):
    """A partition of a topic, as every client names it."""

    topic: str
    partition: int


Batch: TypeAlias = Mapping[TopicPartition, Sequence[Record]]
"""What was fetched together: the records of each partition, in their order."""


def reader(place: TopicPartition, limit: int) -> Callable[[Any, Any], Record]:
    """Return what makes our record of a client's, when it is given the place again; of one over the limit, the head."""
    origin = f"{place.topic}/{place.partition}"

    def read(_place: Any, one: Any) -> Record:
        value, headers = one.value or b"", one.headers  # no value: a key was taken back
        told = tuple((name, content or b"") for name, content in headers) if headers else ()
        size = len(value)
        if size <= limit:
            return Record(value, origin, one.offset, 0, one.key, told)
        return Record(value[: min(HEAD, limit)], origin, one.offset, 0, one.key, told, size)

    return read
