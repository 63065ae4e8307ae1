"""A copy of a partition's rows is what whoever reads the whole changelog would have."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.worker.changelog import READY, STALE, ChangelogTable, EpochFence, FencedError
from tests.worker.logs import MemoryLog, recover

KEYS = [b"a", b"b", b"c"]


class Clock:
    """A clock that tests set."""

    now = 1e9

    def __call__(self) -> float:
        return self.now


def make_table(log: MemoryLog, clock: Clock) -> ChangelogTable:
    """The table of a worker that has read nothing yet."""
    return ChangelogTable(log, EpochFence(), clock)


async def catch_up(table: ChangelogTable, log: MemoryLog) -> None:
    """Read on from where the copy ends."""
    table.load(0, await log.read(0, table.end(0), log.end))
    table.note_complete(0, log.end)


def test_a_copy_that_is_read_on_becomes_the_owner_without_reading_anything_again() -> None:
    async def drive() -> None:
        log, clock = MemoryLog(), Clock()
        owner, copy = make_table(log, clock), make_table(log, clock)
        await owner.claim({0: 0})
        await owner.write({0: [(b"a", b"1"), (b"b", b"2")]})
        await catch_up(copy, log)
        await owner.write({0: [(b"a", None), (b"c", b"3")]})
        await catch_up(copy, log)
        assert dict(copy.recovered(0)) == dict(owner.recovered(0))
        end = copy.end(0)
        await copy.claim({0: end})
        await copy.write({0: [(b"c", b"4")]})
        with pytest.raises(FencedError):
            await owner.write({0: [(b"c", b"late")]})
        successor, _ = recover(log)
        assert dict(successor.recovered(0)) == dict(copy.recovered(0))

    asyncio.run(drive())


def test_an_owner_whose_write_failed_reads_all_rows_anew() -> None:
    async def drive() -> None:
        log, clock = MemoryLog(batch=1), Clock()
        frozen, owner = make_table(log, clock), make_table(log, clock)
        await frozen.claim({0: 0})
        assert frozen.ready() == {0}
        await catch_up(owner, log)
        await owner.claim({0: owner.end(0)})
        with pytest.raises(FencedError):
            await frozen.write({0: [(b"a", b"1"), (b"b", b"2")]})
        assert not frozen.ready()
        frozen.keep({0})
        assert (frozen.end(0), dict(frozen.recovered(0))) == (0, {})

    asyncio.run(drive())


def test_a_copy_is_ready_while_it_is_seen_to_be_complete() -> None:
    clock = Clock()
    table = make_table(MemoryLog(), clock)
    table.note_complete(0, 3)
    assert table.ready() == {0}
    clock.now += READY + 1
    assert not table.ready()
    table.keep({0})
    assert table.end(0) == 3, "it can still be read on"


def test_a_copy_that_was_away_for_so_long_that_deleted_rows_are_gone_is_made_anew() -> None:
    clock = Clock()
    table = make_table(MemoryLog(), clock)
    table.note_complete(0, 3)
    table.note_complete(1, 5)
    clock.now += STALE - 1
    table.note_complete(1, 5)
    clock.now += 2
    assert (table.has_lost_touch(0), table.has_lost_touch(1)) == (True, False)
    table.keep({0, 1})
    assert (table.end(0), table.end(1)) == (0, 5)


def test_a_copy_that_is_behind_a_compaction_forgets_what_was_deleted() -> None:
    async def drive() -> None:
        log, clock = MemoryLog(), Clock()
        owner, copy = make_table(log, clock), make_table(log, clock)
        await owner.claim({0: 0})
        await owner.write({0: [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]})
        await catch_up(copy, log)
        await owner.write({0: [(b"a", None), (b"b", b"2")]})
        await owner.write({0: [(b"b", b"3")]})
        log.compact(log.end)
        await catch_up(copy, log)
        assert dict(copy.recovered(0)) == dict(owner.recovered(0))

    asyncio.run(drive())


def test_partitions_that_are_not_kept_take_no_memory() -> None:
    table, _ = recover(MemoryLog())
    table.note_complete(0, 3)
    table.note_complete(1, 3)
    table.keep({1})
    assert table.known() == {1}


Step = tuple[str, int, bytes, bytes | None]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "write", "follow"]),
        st.integers(0, 2),
        st.sampled_from(KEYS),
        st.none() | st.binary(min_size=1, max_size=2),
    ),
    max_size=30,
)


@given(STEPS)
def test_whatever_others_do_a_copy_is_what_the_whole_changelog_says(steps: list[Step]) -> None:
    async def drive() -> None:
        log, clock = MemoryLog(), Clock()
        tables = [make_table(log, clock) for _ in range(3)]
        claimed = set[int]()
        for what, number, key, value in steps:
            table = tables[number]
            with suppress(FencedError):
                if what == "claim":
                    table.keep({0})
                    await catch_up(table, log)
                    await table.claim({0: table.end(0)})
                    claimed.add(number)
                elif what == "write" and number in claimed:
                    await table.write({0: [(key, value), (b"d", value)]})
                elif what == "follow" and number not in claimed:
                    await catch_up(table, log)
                continue
            claimed.discard(number)
        whole, _ = recover(log)
        for table in tables:
            table.keep({0})
            await catch_up(table, log)
            assert dict(table.recovered(0)) == dict(whole.recovered(0))

    asyncio.run(drive())
