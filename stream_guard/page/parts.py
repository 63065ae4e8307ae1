"""What the page is made of: the history it shows, the policy in force, and who may look."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

from stream_guard.guard.reviews import Reviews
from stream_guard.history import tallies
from stream_guard.history.database import Database
from stream_guard.history.tallies import What
from stream_guard.judge.counts import Counts
from stream_guard.judge.spec import Policy
from stream_guard.page.live import LiveAlerts
from stream_guard.page.rendering import Templates
from stream_guard.page.sign_in import Forms
from stream_guard.registry import Registry
from stream_guard.serve.access import Door
from stream_guard.settings import Settings
from stream_guard.worker.rollouts import ListedRollout

# Series for charts, remembered for a moment: many look at the same days.


_SHARE: Final = 20_000  # of its span, a series may be this part old: four seconds for a day
_REMEMBERED: Final = 64


class SeriesReader:
    """Reads series of tallies; the same one is not read again at once."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[tuple[What, int, int, str], tuple[float, dict[str, list[int]]]] = {}
        self._lock = Lock()

    def read(self, what: What, seconds: int, bars: int, tenant: str = "") -> dict[str, list[int]]:
        """Return the series of the last seconds, by name; do not change it."""
        key, now = (what, seconds, bars, tenant), self._clock()
        with self._lock:
            read_at, known = self._known.get(key, (0.0, {}))
            if now - read_at > seconds / _SHARE:
                known = tallies.series(self._database, what, since=now - seconds, until=now, bars=bars, tenant=tenant)
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[key] = (now, known)
        return known


@dataclass(frozen=True, slots=True)
class PageParts:
    """Given by whoever mounts the page."""

    database: Database  # a connection of its own: whoever looks holds nobody up
    reviews: Reviews
    policy: Callable[[], Policy]
    door: Door
    settings: Settings
    registry: Registry
    counts: Counts | None = None  # of the process that judges; None where another one does
    policy_file: Path | None = None
    rollouts: Callable[[], Sequence[ListedRollout]] = tuple  # of a group of workers whose policies come from a topic


@dataclass(frozen=True, slots=True)
class PageTools:
    """What the views share."""

    parts: PageParts
    forms: Forms
    templates: Templates
    live: LiveAlerts = field(repr=False)
    series: SeriesReader = field(repr=False)
