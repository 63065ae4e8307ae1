"""Live sample sessions: some spread over the last hours, and a new one every few seconds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any, Final

from stream_guard.demo.sessions import sample_events

_HOURS: Final = 20.0
_PAUSE: Final = 4.0  # seconds between two sessions


def spread(events: Iterable[dict[str, Any]], now: float) -> list[dict[str, Any]]:
    """Return the events with their sessions spread over the last hours, each as long as it was, in order."""
    shifted = [dict(event) for event in events]
    first: dict[str, float] = {}
    for event in shifted:
        first[event["session_id"]] = min(event["time"], first.get(event["session_id"], event["time"]))
    ranks = {session: rank for rank, session in enumerate(sorted(first, key=lambda session: first[session]))}
    gap = _HOURS * 3600 / max(1, len(ranks))
    begin = now - _HOURS * 3600
    for event in shifted:
        session = event["session_id"]
        event["time"] = min(begin + ranks[session] * gap + event["time"] - first[session], now)
    return sorted(shifted, key=lambda event: (event["time"], event["event_id"]))


class LiveSessions:
    """Appends a sample session to a file every few seconds, with the current time."""

    def __init__(self, file: Path, known: int, stop: Flag, pause: float = _PAUSE) -> None:
        self._file = file
        self._known = known
        self._stop = stop
        self._pause = pause
        self._thread = Thread(target=self._run, name="stream_guard-demo", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; ``stop`` must be set."""
        self._thread.join()

    def _run(self) -> None:
        number = self._known
        while not self._stop.wait(self._pause):
            shifted = [event for event in sample_events(number + 1, bad_every=2) if _number(event) == number]
            shift = time.time() - max(event["time"] for event in shifted)
            with self._file.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({**event, "time": event["time"] + shift}) + "\n" for event in shifted)
            number += 1


def _number(event: dict[str, Any]) -> int:
    return int(event["session_id"].rpartition("-")[2])
