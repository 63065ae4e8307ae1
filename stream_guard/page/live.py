"""Live alerts: one look at the history at a time, whoever and however many are watching."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from starlette.concurrency import run_in_threadpool

from stream_guard.errors import StoreError
from stream_guard.history import alert_rows
from stream_guard.history.alert_rows import AlertFilter, NotedAlert
from stream_guard.history.database import Database
from stream_guard.serve.bodies import RequestRefused

_logger = logging.getLogger(__name__)

_PAUSE: Final = 0.4  # seconds between two looks
_QUIET: Final = 15.0  # seconds after which a watcher is told that the connection stands
_WATCHERS: Final = 64
_EACH: Final = 24  # of one token: nobody keeps the others out
_BACKLOG: Final = 8  # looks that a slow watcher may be behind
_ROWS: Final = 12  # alerts that are shown of one look, about as many as anybody reads; the others are counted
_A_ROW: Final = 0.17  # seconds that a row stays before others come above it: a list that jumps is read by nobody
_TILES: Final = 5.0  # seconds between two pictures of the numbers above the list
_REFUSED: Final = {"Retry-After": "5", "Connection": "close"}  # it makes room for other requests

Render = Callable[[Sequence[NotedAlert], int], str]


@dataclass(frozen=True, slots=True)
class Watched:
    """What one watcher wants to see, and how it is drawn."""

    wanted: AlertFilter
    render: Render
    tiles: Callable[[], str] | None = None
    name: str = ""  # of the token; empty where there is none
    may_go_on: Callable[[], bool] = lambda: True  # asked now and then: tokens are taken back


class Gathered:
    """Alerts that one watcher was not shown yet: the latest of them, and how many there are."""

    def __init__(self, wanted: AlertFilter, seen: int) -> None:
        self.count = 0
        self.sent_up_to = seen  # the watcher knows of everything up to this number; from here on it may come back
        self._wanted = wanted
        self._seen = seen
        self._latest: list[NotedAlert] = []
        self._not_before = 0.0

    def add(self, noted: Sequence[NotedAlert]) -> None:
        """Take in what a look has found, as far as it is wanted and new."""
        fresh = [one for one in noted if one.number > self._seen and self._wanted.holds(one)]
        self._seen = max([self._seen, *(one.number for one in noted)])
        self.count += len(fresh)
        self._latest = [*self._latest, *fresh][-_ROWS:]
        if not self.count:
            self.sent_up_to = self._seen

    def pause(self, now: float) -> float:
        """Return in how many seconds they may be shown; 0 for now."""
        return max(0.0, self._not_before - now) if self.count else 0.0

    def take(self, now: float) -> tuple[Sequence[NotedAlert], int]:
        """Return those that are shown, the latest first, and how many others there are; none is left then."""
        shown, more = self._latest[::-1], self.count - len(self._latest)
        self._not_before = now + _A_ROW * len(shown)
        self._latest, self.count, self.sent_up_to = [], 0, self._seen
        return shown, more


class LiveAlerts:
    """Passes new alerts on to everybody who watches."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._watchers: dict[asyncio.Queue[list[NotedAlert]], str] = {}
        self._looking: asyncio.Task[None] | None = None
        self._last = 0
        self.closing = False

    def watch(self, watched: Watched, after: int | None = None) -> AsyncIterator[bytes]:
        """Return server-sent events: alerts that are wanted, from ``after`` on or from now on."""
        if not self._has_room(watched.name):
            raise RequestRefused(503, "too many people watch at once; close a page", _REFUSED)
        return self._events(watched, after)

    def _has_room(self, name: str) -> bool:
        mine = sum(1 for other in self._watchers.values() if other == name) if name else 0
        return len(self._watchers) < _WATCHERS and mine < _EACH

    async def _events(self, watched: Watched, after: int | None) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[list[NotedAlert]] = asyncio.Queue(_BACKLOG)
        missed = [] if after is None else await run_in_threadpool(alert_rows.since, self._database, after)
        seen = after if after is not None else await run_in_threadpool(alert_rows.newest, self._database)
        if missed:
            queue.put_nowait(missed)
        if not self._has_room(watched.name):  # others came in meanwhile
            yield b"retry: 10000\n\n"
            return
        self._watchers[queue] = watched.name
        self._look_from(missed[-1].number if missed else seen)
        gathered = Gathered(watched.wanted, seen)
        try:
            yield b"retry: 2000\n\n"
            spoke = drew = asked = time.monotonic()
            stale = False
            while not self.closing:
                gathered.add(await self._next(queue, gathered.pause(time.monotonic())))
                now = time.monotonic()
                if gathered.count and not gathered.pause(now):
                    yield as_event("alerts", watched.render(*gathered.take(now)), gathered.sent_up_to)
                    spoke, stale = now, True
                if stale and watched.tiles is not None and now - drew >= _TILES:
                    with suppress(StoreError):  # whoever looks for alerts says so
                        yield as_event("tiles", await run_in_threadpool(watched.tiles), gathered.sent_up_to)
                    drew, stale = now, False
                if now - asked >= _QUIET:
                    if not watched.may_go_on():
                        return
                    asked = now
                if now - spoke >= _QUIET:
                    yield b": still here\n\n"
                    spoke = now
        finally:
            self._watchers.pop(queue, None)

    @staticmethod
    async def _next(queue: asyncio.Queue[list[NotedAlert]], pause: float) -> list[NotedAlert]:
        """Return what the next look found; nothing where there was none by the time that something is to be done."""
        try:
            return await asyncio.wait_for(queue.get(), min(_PAUSE * 2, pause or _PAUSE * 2))
        except TimeoutError:
            return []

    def _look_from(self, number: int) -> None:
        """Look for alerts after a number; watchers pass over those that they have seen."""
        if self._looking is None or self._looking.done():
            self._last = number
            self._looking = asyncio.get_running_loop().create_task(self._look())
        self._last = min(self._last, number)

    async def _look(self) -> None:
        """Look for new alerts as long as somebody watches."""
        while self._watchers and not self.closing:
            await asyncio.sleep(_PAUSE)
            try:
                noted = await run_in_threadpool(alert_rows.since, self._database, self._last)
            except StoreError as error:
                _logger.warning("live alerts have to wait: %s", error)
                continue
            if noted:
                self._last = noted[-1].number
                for queue in self._watchers:
                    if queue.full():
                        queue.get_nowait()  # a watcher this slow sees the newest; the list has all of them
                    queue.put_nowait(noted)


def as_event(name: str, text: str, number: int) -> bytes:
    """Return one server-sent event."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: {name}\nid: {number}\n{lines}\n".encode("utf-8", "replace")
