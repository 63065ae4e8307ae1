"""Two workers never write under one epoch, and whatever a frozen owner writes, the rows of the owner are kept."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.errors import StoreError
from stream_guard.worker.changelog import ChangelogTable, FencedError, epoch_of
from stream_guard.worker.rows import owner_key
from tests.worker.logs import MemoryLog, recover

KEYS = [b"a", b"b", b"c"]


def states(table: ChangelogTable) -> dict[bytes, bytes]:
    """The rows of a table, without the claim."""
    return {key: value for key, value in table.recovered(0).items() if key in KEYS}


def test_a_worker_that_is_frozen_between_recovery_and_claim_writes_nothing_under_the_epoch_of_the_owner() -> None:
    async def drive() -> None:
        log = MemoryLog()
        frozen, read = recover(log)
        owner, end = recover(log)
        await owner.claim({0: end})
        await owner.write({0: [(b"a", b"1")]})
        with pytest.raises(FencedError, match="another worker is the owner of partition 0"):
            await frozen.claim({0: read})
        await owner.write({0: [(b"b", b"2")]})  # the claim that came too late does not fence the owner
        successor, _ = recover(log)
        assert states(successor) == {b"a": b"1", b"b": b"2"}

    asyncio.run(drive())


def test_a_frozen_owner_learns_at_its_first_write_that_it_is_none_any_more() -> None:
    async def drive() -> None:
        log = MemoryLog()
        frozen, end = recover(log)
        await frozen.claim({0: end})
        await frozen.write({0: [(b"a", b"1")]})
        owner, end = recover(log)
        await owner.claim({0: end})
        with pytest.raises(FencedError):
            await frozen.write({0: [(b"a", b"old")]})
        assert states(frozen) == {b"a": b"1"}, "what does not count is not in its table either"

    asyncio.run(drive())


def test_rows_that_come_between_recovery_and_claim_are_read_before_the_first_batch() -> None:
    async def drive() -> None:
        log = MemoryLog()
        former, end = recover(log)
        await former.claim({0: end})
        owner, end = recover(log)
        await former.write({0: [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]})
        await owner.claim({0: end})
        assert states(owner) == states(former)

    asyncio.run(drive())


def test_an_idle_owner_finds_the_rows_of_a_frozen_one_and_writes_its_own_again_before_compaction() -> None:
    async def drive() -> None:
        log = MemoryLog()
        frozen, end = recover(log)
        await frozen.claim({0: end})
        owner, end = recover(log)
        await owner.claim({0: end})
        await owner.write({0: [(b"a", b"1"), (b"b", b"2")]})
        with pytest.raises(FencedError):
            await frozen.write({0: [(b"a", None), (b"b", b"old")]})

        async def find_end() -> int:
            return log.end

        await owner.check(0, find_end)
        log.compact(log.end)
        successor, _ = recover(log)
        assert states(successor) == {b"a": b"1", b"b": b"2"}

    asyncio.run(drive())


def test_a_changelog_that_was_made_anew_under_a_running_worker_stops_it() -> None:
    async def drive() -> None:
        log = MemoryLog()
        owner, end = recover(log)
        await owner.claim({0: end})
        await owner.write({0: [(b"a", b"1")]})
        log.rows.clear()
        log.end = 0
        with pytest.raises(StoreError, match="made anew, or lost rows"):
            await owner.write({0: [(b"a", b"2")]})

    asyncio.run(drive())


class Workers:
    """Workers that recover, claim and write in any order, and what the owner has written."""

    def __init__(self, batch: int) -> None:
        self.log = MemoryLog(batch)
        self.truth: dict[bytes, bytes] = {}
        self._recovered: dict[int, tuple[ChangelogTable, int]] = {}
        self._claimed: dict[int, ChangelogTable] = {}
        self._epochs: set[int] = set()
        self._owner = -1
        self._writes = 0

    async def recover(self, worker: int, _key: bytes) -> None:
        self._recovered[worker] = recover(self.log)
        self._claimed.pop(worker, None)

    async def claim(self, worker: int, _key: bytes) -> None:
        if worker not in self._recovered:
            return
        table, end = self._recovered.pop(worker)
        with suppress(FencedError):
            await table.claim({0: end})
            assert states(table) == self.truth
            epoch = epoch_of(next(row for row in reversed(self.log.rows) if row.key == owner_key(0)).headers)
            assert epoch not in self._epochs, "no two owners have one number"
            self._epochs.add(epoch)
            self._claimed[worker], self._owner = table, worker

    async def write(self, worker: int, key: bytes) -> None:
        if worker not in self._claimed:
            return
        self._writes += 1
        value = b"%d" % self._writes
        changes = [(key, value if self._writes % 4 else None), (KEYS[0], value)]
        try:
            await self._claimed[worker].write({0: changes})
        except FencedError:
            assert worker != self._owner, "the owner is fenced by nobody who is none"
            del self._claimed[worker]
        else:
            assert worker == self._owner, "a former owner learns it at once"
            self.truth = {name: held for name, held in {**self.truth, **dict(changes)}.items() if held is not None}

    async def take_over(self, worker: int, key: bytes) -> None:
        await self.recover(worker, key)
        await self.claim(worker, key)
        await self.write(worker, key)

    async def check(self, _worker: int, _key: bytes) -> None:
        """The owner looks at the changelog; then compaction runs. The topic's lag gives the owner that time."""

        async def find_end() -> int:
            return self.log.end

        if self._owner in self._claimed:
            await self._claimed[self._owner].check(0, find_end)
            self.log.compact(self.log.end)


NAMES = st.sampled_from(["recover", "claim", "take_over", "write", "write", "check"])
STEPS = st.tuples(NAMES, st.integers(0, 2), st.sampled_from(KEYS))


@given(st.lists(STEPS, min_size=15, max_size=40), st.integers(1, 3))
def test_whoever_is_frozen_and_whenever_it_continues_a_successor_reads_what_the_owner_wrote(
    steps: list[tuple[str, int, bytes]], batch: int
) -> None:
    async def drive() -> None:
        workers = Workers(batch)
        for step, worker, key in steps:
            await getattr(workers, step)(worker, key)
            successor, _ = recover(workers.log)
            assert states(successor) == workers.truth

    asyncio.run(drive())
