"""Records of a source, for tests: all of one that ends, or the next few of one that is followed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from stream_guard.ports import Record, Source
from stream_guard.sources import open_source


@contextmanager
def opened(target: str, **options: Any) -> Iterator[Source]:
    """A source that is closed afterwards, whatever happens."""
    source = open_source(target, **options)
    try:
        yield source
    finally:
        source.close()


def read(target: str, **options: Any) -> list[Record]:
    """Every record of a source that ends."""
    with opened(target, **options) as source:
        return [record for record in source if record is not None]


def numbers(records: Iterable[Record]) -> list[int]:
    """The values of records that are numbers."""
    return [int(record.value) for record in records]


def take(source: Source, count: int) -> list[Record]:
    """The next records of a source that is followed; what comes is waited for."""
    found: list[Record] = []
    for record in source:
        if record is not None:
            found.append(record)
        if len(found) == count:
            return found
    raise AssertionError("the source ended")
