"""Series for charts, remembered for a moment: many look at the same days."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Final

from stream_guard.history import tallies
from stream_guard.history.database import Database
from stream_guard.history.tallies import What

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
