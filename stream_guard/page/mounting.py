"""Where the page is: beside the API of ``serve``, or on a port of its own beside a run or a worker."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from stream_guard.guard.reviews import Reviews
from stream_guard.history.database import open_database
from stream_guard.history.kept_events import EventKeeper
from stream_guard.http.server import ServerThread, make_config
from stream_guard.judge.counts import Counts
from stream_guard.judge.spec import Policy
from stream_guard.page.app import is_page, make_page
from stream_guard.page.parts import PageParts
from stream_guard.running.assembly import Assembly
from stream_guard.serve.access import Door, open_door
from stream_guard.serve.assembly import Ready, limits_of, open_socket
from stream_guard.worker.rollouts import ListedRollout

_GRACE: Final = 2  # seconds for open requests when the run has ended


class PageBesideApi:
    """Sends each request to the page or to the API, by its address."""

    def __init__(self, page: ASGIApp, api: ASGIApp) -> None:
        self._page = page
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        app = self._page if scope["type"] == "http" and is_page(scope["path"]) else self._api
        await app(scope, receive, send)


def mount(ready: Ready, assembly: Assembly, policy_file: Path) -> Ready:
    """Return the server with the page beside its API."""
    parts = _parts(assembly, ready.door, ready.policy, ready.counts, policy_file)
    page, _ = make_page(parts)
    return dataclasses.replace(ready, app=PageBesideApi(page, ready.app))


class PageServer:
    """The page in a thread of its own, for a process whose work is something else."""

    def __init__(
        self,
        assembly: Assembly,
        policy: Callable[[], Policy],
        counts: Counts,
        policy_file: Path | None,
        rollouts: Callable[[], Sequence[ListedRollout]] = tuple,
    ) -> None:
        settings = assembly.settings
        place = settings.api.model_copy(update={"host": settings.page.host, "port": settings.page.port})
        door = open_door(place)
        database = open_database(settings.history.url, settings.history.read_key())
        assembly.opened.callback(database.close)
        assembly.prune_history()
        self.keeper = EventKeeper(database, settings.page)
        assembly.opened.callback(self.keeper.close)
        app, self._live = make_page(
            dataclasses.replace(_parts(assembly, door, policy, counts, policy_file), rollouts=rollouts)
        )
        opened, self.url = open_socket(place)
        self.warning = door.warning
        self._thread = ServerThread(make_config(app, limits_of(place), grace=_GRACE), opened, "page")
        assembly.opened.callback(self.close)

    def close(self) -> None:
        """Stop answering, and return when the thread has ended."""
        self._live.closing = True
        self._thread.close()


def _parts(
    assembly: Assembly, door: Door, policy: Callable[[], Policy], counts: Counts, policy_file: Path | None
) -> PageParts:
    settings = assembly.settings
    database = open_database(settings.history.url, settings.history.read_key())
    assembly.opened.callback(database.close)
    return PageParts(
        database=database,
        reviews=Reviews(database, settings.reviews),
        policy=policy,
        door=door,
        settings=settings,
        registry=assembly.registry,
        counts=counts,
        policy_file=policy_file,
    )
