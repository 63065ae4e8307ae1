"""Merge the records of several partitions by time; the order inside a partition stays."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence, Set
from heapq import heapify, heappop, heapreplace
from typing import Final

from stream_guard.ports import Record

# Limits on the buffered records of one partition.
MAX_WAITING: Final = 5_000
MAX_WAITING_BYTES: Final = 16 << 20


class RecordMerger:
    """Buffers records until the earlier ones of the other partitions are there.

    Partitions are fetched at different speeds. Without this, one of them could be hours of event time ahead
    of another, and its clock would close the sessions of the other as idle.
    """

    def __init__(self) -> None:
        self._queues: dict[str, deque[Record]] = {}
        self._bytes: dict[str, int] = {}

    def add(self, origin: str, records: Sequence[Record]) -> None:
        """Take records of one origin, in their order."""
        self._queues.setdefault(origin, deque()).extend(records)
        self._bytes[origin] = self._bytes.get(origin, 0) + sum(len(record.value) for record in records)

    def holds(self, origin: str) -> bool:
        """Whether records of the origin are waiting."""
        return bool(self._queues.get(origin))

    def fill_of(self, origin: str) -> float:
        """How full the buffer of the origin is; 1 is full."""
        return max(
            len(self._queues.get(origin, ())) / MAX_WAITING,
            self._bytes.get(origin, 0) / MAX_WAITING_BYTES,
        )

    def take(self, awaited: Set[str]) -> Iterator[Record]:
        """Yield records in order, until an awaited origin has none left in the buffer."""
        if any(not self.holds(origin) for origin in awaited):
            return
        # By origin where times are equal: the order must not depend on which was fetched first.
        heads = [(queue[0].time or 0.0, origin, queue) for origin, queue in self._queues.items() if queue]
        heapify(heads)
        while heads:
            _, origin, queue = heads[0]
            record = queue.popleft()
            self._bytes[origin] -= len(record.value)
            yield record
            if queue:
                heapreplace(heads, (queue[0].time or 0.0, origin, queue))
            else:
                heappop(heads)
                if origin in awaited:
                    return
