"""The worker's table of rows, and the changelog that decides who may write to it.

The order of the changelog is the only order that all workers agree on. A worker becomes the owner of a partition by a
row in it, the claim: everything before the claim is in its table, and whatever an earlier owner writes after the claim
counts for nobody. Each write returns its offset. Where that is not the offset after our last row, somebody else has
written in between. Those rows are read:

- rows of a later owner mean that this worker is not the owner any more: it must not go on;
- rows of an earlier owner, one that was frozen or cut off, do not count. They may be the last of their keys, and
  compaction keeps only the last, so the rows that count are written again behind them.

The table has rows of partitions that others own, too: copies, read from the changelog as it grows. Whoever becomes the
owner of a partition reads on where its copy ends.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any, Final, NamedTuple, Protocol

from stream_guard.errors import StoreError
from stream_guard.observability.steady_clock import steady_time
from stream_guard.worker.rows import RowChange, owner_key

# Epochs: only the latest owner of a partition writes rows that count.
#
# A frozen worker does not notice that its partitions have a new owner. Each owner takes an epoch that is higher than
# every epoch in the partition's changelog. It writes a row with that epoch first, and the epoch is a header of all its
# rows. A reader ignores a row whose epoch is lower than an epoch before it.

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


READY: Final = 60.0  # seconds after which a copy that was not seen complete again is not said to be ready
# A deleted row leaves the changelog a day later (``delete.retention.ms``). A copy that was away so long would keep it.
STALE: Final = 3600.0


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


class ChangelogTable:
    """The rows of partitions, in memory as they are in the changelog: of those that are owned, and of copies."""

    def __init__(self, log: Changelog, fence: EpochFence, clock: Callable[[], float] = steady_time) -> None:
        self._log = log
        self._fence = fence
        self._clock = clock
        self._rows: defaultdict[int, dict[bytes, bytes]] = defaultdict(dict)
        self._ends: dict[int, int] = {}  # by partition: the offset after the last row that we know
        self._read: dict[int, float] = {}  # by partition: when rows of it were read last
        self._complete: dict[int, float] = {}  # by partition: when all its rows were known to be here
        self._doubtful: set[int] = set()  # partitions of which a write failed: the rows may lack some of it
        self._owned: set[int] = set()  # partitions whose claim is the first of its epoch
        self._locks: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)  # several stages write

    def recovered(self, partition: int) -> Mapping[bytes, bytes]:
        """Return the current rows of a partition."""
        return self._rows[partition]

    def size(self) -> int:
        """Return how many bytes all rows have."""
        return sum(sum(map(len, rows.values())) for rows in self._rows.values())

    def end(self, partition: int) -> int:
        """Return the offset after the last row that we know; 0 when we know none."""
        return self._ends.get(partition, 0)

    def known(self) -> frozenset[int]:
        """Return the partitions of which rows are here."""
        return frozenset(self._ends)

    def ready(self) -> frozenset[int]:
        """Return the partitions that this worker could go on with at once."""
        since = self._clock() - READY
        return frozenset(number for number, seen in self._complete.items() if seen >= since) - self._doubtful

    def note_complete(self, partition: int, end: int = 0) -> None:
        """Take note that all rows of a partition are here, at this moment; ``end``, if given, is the changelog's."""
        self._ends[partition] = max(self.end(partition), end)
        self._complete[partition] = self._read[partition] = self._clock()

    def has_lost_touch(self, partition: int) -> bool:
        """Whether the rows of a partition cannot be read on from where they end."""
        return partition in self._doubtful or self._read.get(partition, inf) < self._clock() - STALE

    def keep(self, partitions: Collection[int]) -> None:
        """Forget all other partitions, and those of these that have to be read anew."""
        for number in {*self._rows, *self._ends}:
            if number not in partitions or self.has_lost_touch(number):
                self.forget(number)

    def forget(self, partition: int) -> None:
        """Forget the rows of a partition: they will be read from the first one on."""
        self._rows.pop(partition, None)
        for known in (self._ends, self._read, self._complete):
            known.pop(partition, None)
        self._doubtful.discard(partition)
        self._fence.forget(partition)

    def load(self, partition: int, rows: Iterable[LoggedRow]) -> None:
        """Set the rows that count, of rows that were read from the changelog in their order."""
        held, admits = self._rows[partition], self._fence.admits
        self._read[partition] = self._clock()
        for row in rows:
            if admits(partition, row.offset, row.key, row.headers):
                _set(held, row.key, row.value)
            self._ends[partition] = row.offset + 1

    async def claim(self, ends: Mapping[int, int]) -> None:
        """Become the owner of partitions whose rows are recovered up to these offsets; FencedError when others were.

        The claim is the first row that is written under an epoch. When another worker has claimed the partition since
        it was recovered, that claim comes first in the changelog, and this worker writes nothing more.
        """
        await _all(self._claim(partition, end) for partition, end in ends.items())

    async def _claim(self, partition: int, end: int) -> None:
        async with self._locks[partition]:
            self._owned.discard(partition)
            with self._in_doubt(partition):
                await self._claim_next(partition, end)

    async def _claim_next(self, partition: int, end: int) -> None:
        self._fence.begin(partition)
        self._ends[partition] = end
        await self._append(partition, [(owner_key(partition), b"\x01")])
        headers = self._fence.headers(partition)
        self._fence.admits(partition, self._ends[partition] - 1, owner_key(partition), headers)
        self._rows[partition][owner_key(partition)] = b"\x01"  # as whoever reads the changelog has it
        self._owned.add(partition)
        await self._repair(partition)

    async def write(self, changes: Mapping[int, Sequence[RowChange]]) -> None:
        """Write the changes of each partition in their order; return when all are acknowledged, and in the table."""
        await _all(self._write(partition, listed) for partition, listed in changes.items())

    async def _write(self, partition: int, changes: Sequence[RowChange]) -> None:
        async with self._locks[partition]:
            with self._in_doubt(partition):
                await self._append(partition, changes)
                # Under the lock: a row that is written again must be the one that was written last.
                for key, value in changes:
                    _set(self._rows[partition], key, value)
                await self._repair(partition)

    async def check(self, partition: int, find_end: Callable[[], Awaitable[int]]) -> None:
        """Look for rows of others behind our last one. An owner that writes nothing would not find them."""
        async with self._locks[partition]:
            end = await find_end()
            with self._in_doubt(partition):
                if end > self._ends[partition]:
                    await self._read_others(partition, end)
                    await self._repair(partition)

    @contextmanager
    def _in_doubt(self, partition: int) -> Iterator[None]:
        """Have the rows of a partition read anew when this fails: it is not known which of them were written."""
        if partition in self._doubtful:  # and no later success takes that back
            yield
            return
        self._doubtful.add(partition)
        yield
        self._doubtful.discard(partition)
        self.note_complete(partition)

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
            rows = self._rows[partition]
            await self._append(partition, [(key, rows.get(key)) for key in stale])


def _set(rows: dict[bytes, bytes], key: bytes, value: bytes | None) -> None:
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value


async def _all(work: Iterable[Awaitable[Any]]) -> None:
    """Wait for all of them, then raise the first error: none goes on behind the caller's back."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for error in results:
        if isinstance(error, BaseException):
            raise error
