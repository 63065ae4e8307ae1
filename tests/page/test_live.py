"""Live alerts: nobody misses one, a flood is summed up, and whoever comes back goes on where they were."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stream_guard.history import alert_rows
from stream_guard.history.alert_rows import AlertFilter, NotedAlert
from stream_guard.history.database import Database
from stream_guard.history.opening import open_database
from stream_guard.model import Alert
from stream_guard.page.live import LiveAlerts, Watched
from stream_guard.serve.bodies import RequestRefused


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(str(tmp_path / "history.db"))
    yield opened
    opened.close()


def add(database: Database, first: int, count: int) -> None:
    with database.transaction() as statements:
        for number in range(first, first + count):
            alert = Alert(
                alert_id=f"x{number}",
                rule_id="r",
                kind="k",
                severity="error" if number % 2 else "info",
                session_id="s",
                event_id="",
                index=None,
                time=None,
                detail=f"number {number}",
                policy_version="v",
            )
            alert_rows.insert(statements, alert, float(number))


class Watcher:
    """Collects what one watcher is sent."""

    def __init__(self, live: LiveAlerts, wanted: AlertFilter | None = None, after: int | None = None) -> None:
        self.shown: list[int] = []
        self.more = 0
        self._told = asyncio.Event()
        self._events = live.watch(Watched(wanted or AlertFilter(), self._render), after)
        self._task = asyncio.create_task(self._run())

    def _render(self, noted: Sequence[NotedAlert], more: int) -> str:
        self.shown += [one.number for one in noted]
        self.more += more
        self._told.set()
        return "row"

    async def _run(self) -> None:
        async for _ in self._events:
            pass

    async def until(self, total: int) -> None:
        async with asyncio.timeout(15):
            while len(self.shown) + self.more < total:
                self._told.clear()
                await self._told.wait()

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def test_a_watcher_gets_what_came_since_the_page_was_made_and_what_comes_then(database: Database) -> None:
    async def watch() -> list[int]:
        add(database, 1, 5)
        watcher = Watcher(LiveAlerts(database), after=2)  # the page showed two
        await watcher.until(3)
        add(database, 6, 2)
        await watcher.until(5)
        await watcher.leave()
        return sorted(watcher.shown)

    assert asyncio.run(watch()) == [3, 4, 5, 6, 7]


def test_two_watchers_with_other_filters_each_get_their_own(database: Database) -> None:
    async def watch() -> tuple[list[int], list[int]]:
        live = LiveAlerts(database)
        first = Watcher(live, AlertFilter(severity="error"), after=0)
        await asyncio.sleep(0.1)
        add(database, 1, 4)
        second = Watcher(live, AlertFilter(), after=0)
        await first.until(2)
        await second.until(4)
        await first.leave()
        await second.leave()
        return sorted(first.shown), sorted(second.shown)

    assert asyncio.run(watch()) == ([1, 3], [1, 2, 3, 4])


def test_a_flood_is_shown_in_part_and_counted_in_full(database: Database) -> None:
    async def watch() -> tuple[int, int]:
        watcher = Watcher(LiveAlerts(database), after=0)
        await asyncio.sleep(0.1)
        add(database, 1, 1300)
        await watcher.until(1300)
        await watcher.leave()
        return len(watcher.shown), watcher.more

    shown, more = asyncio.run(watch())
    assert shown + more == 1300
    assert shown <= 160


def test_only_so_many_may_watch_at_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_guard.page.live._WATCHERS", 1)

    async def watch() -> None:
        live = LiveAlerts(database)
        first = Watcher(live)
        await asyncio.sleep(0.2)
        with pytest.raises(RequestRefused, match="too many") as refused:
            live.watch(Watched(AlertFilter(), lambda *_: ""))
        assert (refused.value.headers or {})["Connection"] == "close"  # or a flood of them would hold every connection
        await first.leave()

    asyncio.run(watch())
