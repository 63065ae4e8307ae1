"""Progress of a replay: a bar with rate and remaining time on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import typer

from stream_guard.kafka.address import SCHEME
from stream_guard.settings import Settings
from stream_guard.sources.kafka import open_kafka

EVERY: Final = 10.0  # seconds between two plain lines

Watch: TypeAlias = Callable[[int, Mapping[str, int]], None]
"""Takes how many records were read, and the position of the next one in each file or partition."""


class Extent(NamedTuple):
    """How much there is to read, and where the reading of each origin begins: bytes of files, records of topics."""

    total: int | None  # None: not known before the end
    starts: Mapping[str, int] = {}

    def done(self, positions: Mapping[str, int]) -> int:
        """Return how much has been read, from the positions of the next records."""
        return sum(at - self.starts.get(origin, 0) for origin, at in positions.items())


def extent_of(source: str, settings: Settings) -> Extent:
    """Return how much there is to read of a source that ends."""
    if not source.startswith(SCHEME):
        return Extent(size_of(source))
    topic = open_kafka(source, settings.kafka, follow=False, limit=settings.decode.max_record_bytes, positions={})
    try:
        spans = topic.spans()
    finally:
        topic.close()
    return Extent(sum(stop - start for start, stop in spans.values()), {name: at for name, (at, _) in spans.items()})


@contextmanager
def show_progress(extent: Extent) -> Iterator[Watch]:
    """Show on standard error how far the reading of a source has come."""
    total = extent.total
    if not sys.stderr.isatty():
        yield PlainProgress(extent)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("replay"),
        BarColumn(),
        TextColumn("{task.fields[records]:,} records, {task.fields[rate]:,.0f}/s"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("replay", total=total, records=0, rate=0.0)
        began = time.monotonic()

        def watch(records: int, positions: Mapping[str, int]) -> None:
            rate = records / max(1e-6, time.monotonic() - began)
            bar.update(task, completed=extent.done(positions) if total else records, records=records, rate=rate)

        yield watch


class PlainProgress:
    """A line every few seconds, for logs and pipes."""

    def __init__(
        self,
        extent: Extent,
        *,
        clock: Callable[[], float] = time.monotonic,
        print_line: Callable[[str], None] = lambda line: typer.echo(line, err=True),
    ) -> None:
        self._extent = extent
        self._clock = clock
        self._print_line = print_line
        self._began = self._printed = clock()
        self._before: tuple[int, int] | None = None  # records and extent that an earlier run had read

    def __call__(self, records: int, positions: Mapping[str, int]) -> None:
        """Take the progress so far, and print a line when the last one is old enough."""
        done, total = self._extent.done(positions), self._extent.total
        if self._before is None:
            self._before = (records, done)
        now = self._clock()
        if now - self._printed < EVERY:
            return
        self._printed = now
        seconds = now - self._began
        line = f"{records} records, {(records - self._before[0]) / seconds:.0f}/s"
        fresh = done - self._before[1]
        if total and fresh > 0:
            left = max(0.0, (total - done) * seconds / fresh)
            line += f", {min(1.0, done / total):.0%}, about {left:.0f} s left"
        self._print_line(line)


def size_of(source: str) -> int | None:
    """Return how many bytes of lines a file or folder holds, unpacked; None where that is not known before the end."""
    path = Path(source)
    if path.is_file():
        return _unpacked(path)
    if not path.is_dir():
        return None
    return sum(_unpacked(file) for pattern in ("*.jsonl", "*.jsonl.gz") for file in path.glob(pattern))


def _unpacked(path: Path) -> int:
    size = path.stat().st_size
    if path.suffix != ".gz" or size < 4:
        return size
    with path.open("rb") as file:
        # RFC 1952: the last four bytes are the size before packing, modulo 2**32; good enough for a bar.
        file.seek(-4, 2)
        return max(size, int.from_bytes(file.read(4), "little"))
