"""Batches of records, as a worker fetches them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from stream_guard.ports import Record


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


FetchedBatch: TypeAlias = Mapping[TopicPartition, Sequence[Record]]
"""The records of one fetch, by partition, in the order of their offsets."""
