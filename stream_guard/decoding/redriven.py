"""Dead letters that come back: how a record says which letter it was, and what its events are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from stream_guard.judge.model import Event
from stream_guard.ports import Record

REDRIVEN: Final = "stream_guard_redriven"  # the id of the letter


def letter_of(record: Record) -> str:
    """Return the id of the letter that a record was; empty for one that comes for the first time."""
    for name, value in record.headers:
        if name == REDRIVEN:
            return value.decode("utf-8", "replace")
    return ""


def named_after(letter: str, events: Sequence[Event]) -> list[Event]:
    """Return the events of a letter that came back, each with an id: sent back once more, they are redeliveries."""
    return [
        replace(event, event_id=f"letter-{letter}-{number}") if event.event_id[:1] in ("", "~") else event
        for number, event in enumerate(events)
    ]
