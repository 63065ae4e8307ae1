"""The worker's table of rows, and the changelog that decides who may write to it.

The order of the changelog is the only order that all workers agree on. A worker becomes the owner of a partition by a
row in it, the claim: everything before the claim is in its table, and whatever an earlier owner writes after the claim
counts for nobody. Each write returns its offset. Where that is not the offset after our last row, somebody else has
written in between. Those rows are read:

- rows of a later owner mean that this worker is not the owner any more: it must not go on;
- rows of an earlier owner, one that was frozen or cut off, do not count. They may be the last of their keys, and
  compaction keeps only the last, so the rows that count are written again behind them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from stream_guard.errors import StoreError
from stream_guard.worker.epoch import EpochFence, epoch_of
from stream_guard.worker.rows import owner_key
from stream_guard.worker.store import RowChange


class FencedError(StoreError):
    """Another worker is the owner of a partition now."""


class LoggedRow(NamedTuple):
    """A row of the changelog, with its place."""

    offset: int
    key: bytes
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


class Changelog(Protocol):
    """The topic with the rows, partition by partition."""

    async def append(
        self, partition: int, changes: Sequence[RowChange], headers: Sequence[tuple[str, bytes]]
    ) -> Sequence[range]:
        """Write rows in their order; return the offsets of each batch when the broker has acknowledged all."""

    async def read(self, partition: int, start: int, stop: int) -> Sequence[LoggedRow]:
        """Return the rows between two offsets."""


class RowStore(Protocol):
    """Where the rows of all partitions are in memory."""

    def rows(self) -> Mapping[bytes, bytes]:
        """Return the current rows."""

    def set(self, partition: int, key: bytes, value: bytes | None) -> None:
        """Set a row; None deletes it."""


class ChangelogTable:
    """The rows of the owned partitions: in memory as they are in the changelog."""

    def __init__(self, log: Changelog, store: RowStore, fence: EpochFence) -> None:
        self._log = log
        self._store = store
        self._fence = fence
        self._ends: dict[int, int] = {}  # by partition: the offset after the last row that we know
        self._owned: set[int] = set()  # partitions whose claim is the first of its epoch
        self._locks: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)  # several stages write

    def recovered(self) -> Mapping[bytes, bytes]:
        """Return the current rows of all partitions."""
        return self._store.rows()

    def end(self, partition: int) -> int:
        """Return the offset after the last row that we know."""
        return self._ends[partition]

    def load(self, partition: int, rows: Iterable[LoggedRow]) -> None:
        """Set the rows that count, of rows that were read from the changelog in their order."""
        for row in rows:
            if self._fence.admits(partition, row.offset, row.key, row.headers):
                self._store.set(partition, row.key, row.value)

    async def claim(self, ends: Mapping[int, int]) -> None:
        """Become the owner of partitions whose rows are recovered up to these offsets; FencedError when others were.

        The claim is the first row that is written under an epoch. When another worker has claimed the partition since
        it was recovered, that claim comes first in the changelog, and this worker writes nothing more.
        """
        await _all(self._claim(partition, end) for partition, end in ends.items())

    async def _claim(self, partition: int, end: int) -> None:
        async with self._locks[partition]:
            self._owned.discard(partition)
            self._fence.begin(partition)
            self._ends[partition] = end
            await self._append(partition, [(owner_key(partition), b"\x01")])
            headers = self._fence.headers(partition)
            self._fence.admits(partition, self._ends[partition] - 1, owner_key(partition), headers)
            self._owned.add(partition)
            await self._repair(partition)

    async def write(self, changes: Mapping[int, Sequence[RowChange]]) -> None:
        """Write the changes of each partition in their order; return when all are acknowledged, and in the table."""
        await _all(self._write(partition, listed) for partition, listed in changes.items())

    async def _write(self, partition: int, changes: Sequence[RowChange]) -> None:
        async with self._locks[partition]:
            await self._append(partition, changes)
            # Under the lock: a row that is written again must be the one that was written last.
            for key, value in changes:
                self._store.set(partition, key, value)
            await self._repair(partition)

    async def check(self, partition: int, find_end: Callable[[], Awaitable[int]]) -> None:
        """Look for rows of others behind our last one. An owner that writes nothing would not find them."""
        async with self._locks[partition]:
            end = await find_end()
            if end > self._ends[partition]:
                await self._read_others(partition, end)
                await self._repair(partition)

    async def _append(self, partition: int, changes: Sequence[RowChange]) -> None:
        for offsets in await self._log.append(partition, changes, self._fence.headers(partition)):
            if offsets.start < self._ends[partition]:
                raise StoreError(
                    f"the changelog of partition {partition} ends at {offsets.start}, and {self._ends[partition]} rows "
                    "were written: it was made anew, or lost rows; begin anew with another group"
                )
            await self._read_others(partition, offsets.start)
            self._ends[partition] = offsets.stop

    async def _read_others(self, partition: int, stop: int) -> None:
        start = self._ends[partition]
        rows = await self._log.read(partition, start, stop) if start < stop else ()
        if any(self._is_of_an_owner(partition, row) for row in rows):
            raise FencedError(
                f"another worker is the owner of partition {partition} now: this one was frozen, or cut off from its "
                "brokers; nothing is lost"
            )
        self.load(partition, rows)
        self._ends[partition] = stop

    def _is_of_an_owner(self, partition: int, row: LoggedRow) -> bool:
        """Whether another worker that is the owner wrote a row; a claim that came later than ours made none."""
        epoch, ours = epoch_of(row.headers), self._fence.epoch(partition)
        came_later = partition in self._owned and row.key == owner_key(partition)
        return epoch > ours or (epoch == ours and not came_later)

    async def _repair(self, partition: int) -> None:
        """Write the rows again that count, where the last row of a key does not."""
        while stale := sorted(self._fence.take_stale(partition)):
            rows = self.recovered()
            await self._append(partition, [(key, rows.get(key)) for key in stale])


async def _all(work: Iterable[Awaitable[Any]]) -> None:
    """Wait for all of them, then raise the first error: none goes on behind the caller's back."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for error in results:
        if isinstance(error, BaseException):
            raise error
