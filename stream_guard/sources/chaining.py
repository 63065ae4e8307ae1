"""Several sources as one: one after the other, each opened when it is its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing

from stream_guard.ports import BatchedSource, Record, Source


class ChainedSource:
    """The records of sources in their order. Of those that were read, the positions stay known."""

    def __init__(self, openers: Sequence[Callable[[], Source]]) -> None:
        self._openers = openers
        self._read: dict[str, int] = {}
        self._open: Source | None = None

    def __iter__(self) -> Iterator[Record | None]:
        for opener in self._openers:
            with closing(opener()) as self._open:
                yield from self._open
                self._read |= self._open.positions()
            self._open = None

    def batches(self, most: int) -> Iterator[list[Record]]:
        """Yield the same records, many at once from those sources that can; an empty list: nothing is there now."""
        for opener in self._openers:
            with closing(opener()) as self._open:
                if isinstance(self._open, BatchedSource):
                    yield from self._open.batches(most)
                else:
                    yield from ([] if record is None else [record] for record in self._open)
                self._read |= self._open.positions()
            self._open = None

    def positions(self) -> Mapping[str, int]:
        """Where the next record of each origin starts."""
        return self._read if self._open is None else self._read | dict(self._open.positions())

    def close(self) -> None:
        """Close the source that is open."""
        if self._open is not None:
            self._open.close()
