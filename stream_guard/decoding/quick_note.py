"""Noting where a usual event stands. The plain build leaves it to ``RecordPlaces``; ``quick_note.c`` does not."""

from __future__ import annotations

from typing import Any

from stream_guard.model import Event
from stream_guard.ports import Record


def quick_note(recent: dict[str, list[Any]], most: int, record: Record | None, event: Event) -> bool:
    """Add the event's id, the file and the line of its record to the entries of its session; False: nothing was done.

    It is done where the session has entries, fewer than ``most``, the event has an id of its own and the record a line.
    """
    del recent, most, record, event
    return False
