"""A changelog in memory, for tests of ownership: rows with offsets, compaction, and any number of workers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from stream_guard.worker.changelog import ChangelogTable, EpochFence, LoggedRow
from stream_guard.worker.rows import RowChange


class MemoryLog:
    """One changelog that all workers write to, each batch in one piece."""

    def __init__(self, batch: int = 2) -> None:
        self.rows: list[LoggedRow] = []
        self.end = 0
        self._batch = batch

    async def append(
        self, partition: int, changes: Sequence[RowChange], headers: Sequence[tuple[str, bytes]]
    ) -> list[range]:
        assert partition == 0
        written = []
        for start in range(0, len(changes), self._batch):
            await asyncio.sleep(0)  # others write in between
            piece = changes[start : start + self._batch]
            self.rows += [LoggedRow(self.end + n, key, value, headers) for n, (key, value) in enumerate(piece)]
            written.append(range(self.end, self.end + len(piece)))
            self.end += len(piece)
        return written

    async def read(self, partition: int, start: int, stop: int) -> list[LoggedRow]:
        assert partition == 0
        await asyncio.sleep(0)
        return [row for row in self.rows if start <= row.offset < stop]

    def compact(self, before: int) -> None:
        """Keep only the last row of each key, of the rows before an offset."""
        last = {row.key: row.offset for row in self.rows}
        self.rows = [row for row in self.rows if row.offset >= before or last[row.key] == row.offset]


def recover(log: MemoryLog) -> tuple[ChangelogTable, int]:
    """Return the table of a worker that has read the changelog, and the offset up to which it has."""
    table = ChangelogTable(log, EpochFence())
    table.load(0, log.rows)
    return table, log.end
