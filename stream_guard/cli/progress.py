"""Progress of long work: a bar with rate and remaining time on a terminal, plain lines elsewhere where asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import typer

from stream_guard.kafka.address import SCHEME
from stream_guard.settings import Settings
from stream_guard.sources.kafka import open_kafka

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

EVERY: Final = 10.0  # seconds between two plain lines
_PATIENCE: Final = 2.0  # seconds of work that need no bar

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


def extent_of_all(sources: Sequence[str], settings: Settings) -> Extent:
    """Return how much there is to read of several sources; not known where one of them is not."""
    extents = [extent_of(source, settings) for source in sources] if sys.stderr.isatty() else []
    totals = [extent.total for extent in extents if extent.total is not None]
    starts = {origin: start for extent in extents for origin, start in extent.starts.items()}
    return Extent(sum(totals) if totals and len(totals) == len(extents) else None, starts)


@contextmanager
def show_progress(extent: Extent, what: str = "replay", *, plain: bool = True) -> Iterator[Watch]:
    """Show on standard error how far the reading of a source has come; ``plain``: also where that is no terminal."""
    if not sys.stderr.isatty():
        yield PlainProgress(extent) if plain else _nothing
        return
    bar = _LateBar(extent, what)
    try:
        yield bar
    finally:
        bar.close()


def _nothing(_records: int, _positions: Mapping[str, int]) -> None:
    """Show nothing."""


class _LateBar:
    """A bar that appears when the work takes longer than a moment."""

    def __init__(self, extent: Extent, what: str) -> None:
        self._extent = extent
        self._what = what
        self._began = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, records: int, positions: Mapping[str, int]) -> None:
        seconds = time.monotonic() - self._began
        if self._bar is None:
            if seconds < _PATIENCE:
                return
            self._open()
        if self._bar is not None and self._task is not None:
            done = self._extent.done(positions) if self._extent.total else records
            self._bar.update(self._task, completed=done, records=records, rate=records / seconds, left=self._left(done))

    def _left(self, done: int) -> str:
        total = self._extent.total
        if not total or done <= 0:
            return ""
        left = max(0.0, (total - done) * (time.monotonic() - self._began) / done)
        return f"about {left:,.0f} s left" if left < 120 else f"about {left / 60:,.0f} min left"

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (
            TextColumn(self._what),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[records]:,} records, {task.fields[rate]:,.0f}/s {task.fields[left]}"),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task(self._what, total=self._extent.total, records=0, rate=0.0, left="")

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


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
