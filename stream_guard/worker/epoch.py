"""Epochs: only the latest owner of a partition writes rows that count.

A frozen worker does not notice that its partitions have a new owner. Each owner takes an epoch that is higher than
every epoch in the partition's changelog. It writes a row with that epoch first, and the epoch is a header of all its
rows. A reader ignores a row whose epoch is lower than an epoch before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_HEADER: Final = "owner"


class EpochFence:
    """The epochs of each partition: those in its changelog, and our own."""

    def __init__(self) -> None:
        self._starts: dict[int, list[tuple[int, int]]] = {}  # offsets at which a higher epoch begins, and the epoch
        self._ours: dict[int, int] = {}
        self._headers: dict[int, list[tuple[str, bytes]]] = {}
        self._stale: dict[int, set[bytes]] = {}  # keys whose last row does not count

    def admits(self, partition: int, offset: int, key: bytes, headers: Iterable[tuple[str, bytes]]) -> bool:
        """Whether the row at an offset counts. Rows come in order; a new pass may start at any offset."""
        epoch = epoch_of(headers)
        starts, stale = self._starts.setdefault(partition, []), self._stale.setdefault(partition, set())
        while starts and starts[-1][0] >= offset:
            starts.pop()
        highest = starts[-1][1] if starts else 0
        if epoch < highest:
            stale.add(key)
            return False
        if epoch > highest:
            starts.append((offset, epoch))
        stale.discard(key)
        return True

    def begin(self, partition: int) -> None:
        """Choose an epoch of our own, above all that were read. It counts when its first row is in the changelog."""
        starts = self._starts.get(partition)
        epoch = max(starts[-1][1] if starts else 0, self._ours.get(partition, 0)) + 1
        self._ours[partition] = epoch
        self._headers[partition] = [(_HEADER, epoch.to_bytes(8, "big"))]

    def forget(self, partition: int) -> None:
        """Forget what was read of a partition; its changelog may be another one when it is read again."""
        self._starts.pop(partition, None)
        self._stale.pop(partition, None)

    def epoch(self, partition: int) -> int:
        """Return our own epoch of a partition."""
        return self._ours[partition]

    def headers(self, partition: int) -> list[tuple[str, bytes]]:
        """Return the headers of our rows."""
        return self._headers.get(partition, [])

    def take_stale(self, partition: int) -> set[bytes]:
        """Return the keys whose last row does not count, and forget them: the caller writes their rows again."""
        return self._stale.pop(partition, set())


def epoch_of(headers: Iterable[tuple[str, bytes]]) -> int:
    """Return the epoch in the headers of a row; 0 for a row from before there were owners."""
    return next((int.from_bytes(value, "big") for name, value in headers if name == _HEADER), 0)
