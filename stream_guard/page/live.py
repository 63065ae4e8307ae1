"""Live alerts: one look at the history at a time, whoever and however many are watching."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
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
_BACKLOG: Final = 8  # looks that a slow watcher may be behind
_ROWS: Final = 40  # alerts that are shown of one look; the others are counted

Render = Callable[[Sequence[NotedAlert], int], str]


class LiveAlerts:
    """Passes new alerts on to everybody who watches."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._watchers: set[asyncio.Queue[list[NotedAlert]]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._last = 0
        self.closing = False

    async def watch(self, wanted: AlertFilter, render: Render, after: int | None = None) -> AsyncIterator[bytes]:
        """Yield server-sent events: alerts that are wanted, from ``after`` on or from now on."""
        if len(self._watchers) >= _WATCHERS:
            raise RequestRefused(503, "too many people watch at once; close a page", {"Retry-After": "5"})
        queue: asyncio.Queue[list[NotedAlert]] = asyncio.Queue(_BACKLOG)
        missed = [] if after is None else await run_in_threadpool(alert_rows.since, self._database, after)
        seen = after if after is not None else await run_in_threadpool(alert_rows.newest, self._database)
        if missed:
            queue.put_nowait(missed)
        self._watchers.add(queue)
        self._look_from(missed[-1].number if missed else seen)
        try:
            yield b"retry: 2000\n\n"
            quiet = 0.0
            while not self.closing:
                try:
                    noted = await asyncio.wait_for(queue.get(), _PAUSE * 2)
                except TimeoutError:
                    quiet += _PAUSE * 2
                    if quiet >= _QUIET:
                        quiet = 0.0
                        yield b": still here\n\n"
                    continue
                fresh = [one for one in noted if one.number > seen and wanted.holds(one)]
                seen = max([seen, *(one.number for one in noted)])
                if fresh:
                    newest_first = fresh[::-1][:_ROWS]
                    yield as_event("alerts", render(newest_first, len(fresh) - len(newest_first)), seen)
        finally:
            self._watchers.discard(queue)

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
