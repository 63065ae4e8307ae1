"""Live alerts: nobody misses one, a flood is summed up, and whoever comes back goes on where they were."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stream_guard import testing
from stream_guard.history import alert_rows
from stream_guard.history.alert_rows import AlertFilter, NotedAlert
from stream_guard.history.database import Database, open_database
from stream_guard.judge.model import Alert
from stream_guard.page.live import Gathered, LiveAlerts, Watched
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


def looks(each: int, seconds: float = 60.0) -> Iterator[tuple[float, list[NotedAlert]]]:
    """Yield what a look finds every 0.4 seconds, and when."""
    for look in range(int(seconds / 0.4)):
        numbers = range(look * each + 1, (look + 1) * each + 1)
        yield look * 0.4, [NotedAlert(number=number, noted=0.0, alert=testing.alert(number)) for number in numbers]


@pytest.mark.parametrize(("each", "most"), [(1, 150), (3, 120), (10, 40), (67, 30)])
def test_a_list_grows_at_a_pace_that_can_be_read_however_many_come_in(each: int, most: int) -> None:
    gathered, pictures, total = Gathered(AlertFilter(), 0), 0, 0
    for now, noted in looks(each):
        gathered.add(noted)
        if gathered.count and not gathered.pause(now):
            shown, more = gathered.take(now)
            assert [one.number for one in shown] == sorted((one.number for one in shown), reverse=True)
            assert len(shown) <= 12
            pictures += 1
            total += len(shown) + more
    assert pictures <= most
    assert total + gathered.count == each * 150


def test_one_alert_alone_is_shown_at_once() -> None:
    gathered = Gathered(AlertFilter(), 0)
    for now, noted in looks(1):
        gathered.add(noted)
        assert gathered.pause(now) == 0.0
        gathered.take(now)


def test_whoever_comes_back_is_told_what_was_gathered_and_not_shown() -> None:
    gathered = Gathered(AlertFilter(), 0)
    for now, noted in looks(67, 10):
        gathered.add(noted)
        assert gathered.sent_up_to + gathered.count == noted[-1].number
        if not gathered.pause(now):
            gathered.take(now)
            assert gathered.sent_up_to == noted[-1].number
    unwanted = Gathered(AlertFilter(rule="another"), 0)
    unwanted.add(noted)
    assert unwanted.sent_up_to == noted[-1].number  # nobody has to look through these again


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
