"""Partitions of topics, and what was fetched from them as records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from stream_guard.ports import Record
from stream_guard.sources.splitting import HEAD


class TopicPartition(NamedTuple):
    """A partition of a topic, as every client names it."""

    topic: str
    partition: int


def convert(place: TopicPartition, fetched: Sequence[Any], limit: int) -> list[Record]:
    """Return what a client fetched as records; of one over the limit, only the head."""
    origin = f"{place.topic}/{place.partition}"
    records = []
    for one in fetched:
        value = one.value or b""  # none: a key was taken back
        size = len(value)
        if size > limit:
            value = value[: min(HEAD, limit)]
        records.append(
            Record(
                value,
                origin,
                one.offset,
                key=one.key,
                headers=tuple((name, content or b"") for name, content in one.headers),
                truncated=size if size > limit else 0,
            )
        )
    return records
