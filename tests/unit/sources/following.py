"""Takes what there is right now from a source that never ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event as Flag
from typing import ClassVar

from stream_guard.ports import Record, Source
from stream_guard.sources import open_source

STOPPED = Flag()
STOPPED.set()  # nobody waits in these tests: what is there is yielded, and then None at once


def values(source: Source) -> list[bytes]:
    """Return what a source yields, to its end."""
    found = [record.value.rstrip(b"\n") for record in source if record is not None]
    source.close()
    return found


class Follower:
    """Takes what there is right now from a source that never ends."""

    opened: ClassVar[list[Source]] = []

    def __init__(self, target: Path, positions: dict[str, int] | None = None) -> None:
        self.source = open_source(str(target), follow=True, positions=positions, stop=STOPPED)
        self.opened.append(self.source)
        self._records: Iterator[Record | None] = iter(self.source)

    def now(self) -> list[bytes]:
        found = []
        while (record := next(self._records)) is not None:
            found.append(record.value.rstrip(b"\n"))
        return found


def append(path: Path, data: bytes) -> None:
    """Write at the end of a file."""
    with path.open("ab") as file:
        file.write(data)
