"""Archives: nested folders, as Kafka Connect and object stores write them, read once from end to end."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, TypeAlias

from stream_guard.errors import SourceError
from stream_guard.ports import Record
from stream_guard.sources.eval_logs import EVAL, EvalFile
from stream_guard.sources.lines import LineFile
from stream_guard.sources.parquet_process import ParquetReader
from stream_guard.sources.tables import AVRO, PARQUET, TableFile

LINES: Final = (".jsonl", ".ndjson", ".json", ".traj")
PACKINGS: Final = ("", ".gz", ".zst")
ROWS: Final = (AVRO, PARQUET, EVAL)
"""Ends of the names of files that are no lines."""
SUFFIXES: Final = (*(lines + packing for lines in LINES for packing in PACKINGS), *ROWS)

_NUMBER: Final = re.compile(r"(\d+)")
SortKey: TypeAlias = tuple[tuple[tuple[str, int], ...], ...]


def find_files(folder: Path) -> list[Path]:
    """Return the readable files below a folder in order; hidden files and links are skipped."""
    found: list[Path] = []
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in files:
            path = Path(where, name)
            if name.endswith(SUFFIXES) and not name.startswith((".", "_")) and not path.is_symlink():
                found.append(path)
    return sorted(found, key=lambda path: sort_key(path.relative_to(folder)))


def sort_key(path: Path) -> SortKey:
    """Return the sort key of a file: by name, with the numbers in it by value.

    So ``partition=2`` comes before ``partition=10``, and hours, days and offsets are in order.
    """
    return tuple(
        tuple((text, int(number or 0)) for text, number in _pieces(_NUMBER.split(part))) for part in path.parts
    )


def _pieces(split: list[str]) -> Iterator[tuple[str, str]]:
    for at in range(0, len(split), 2):
        yield split[at], split[at + 1] if at + 1 < len(split) else ""


class ArchiveSource:
    """The records of files, one after the other.

    What cannot be read of Avro or Parquet is one record that says why, and the next file follows. Other files that
    cannot be read raise SourceError.
    """

    def __init__(self, files: list[Path], *, limit: int, positions: Mapping[str, int]) -> None:
        self._positions = dict(positions)
        self._limit = limit
        self._files = files
        self._open: LineFile | None = None
        self._parquet = ParquetReader()

    def __iter__(self) -> Iterator[Record | None]:
        with closing(self._parquet):
            for path in self._files:
                origin = str(path)
                start = self._positions.get(origin, 0)
                yield from (self._rows if path.suffix in ROWS else self._lines)(path, origin, start)

    def _rows(self, path: Path, origin: str, start: int) -> Iterator[Record]:
        file: EvalFile | TableFile
        if path.suffix == EVAL:
            file = EvalFile(path, origin, limit=self._limit, position=start)
        else:
            file = TableFile(path, origin, limit=self._limit, position=start, parquet=self._parquet)
        try:
            for record in file.read():
                self._positions[origin] = file.position
                yield record
        except SourceError as error:
            if path.suffix == EVAL:
                raise
            # The position stays: once the file is mended, it is read on from there.
            yield Record(b"", origin, file.position, truncated=max(1, path.stat().st_size), problem=str(error))

    def _lines(self, path: Path, origin: str, start: int) -> Iterator[Record]:
        self._open = file = LineFile(path, origin, limit=self._limit, position=start)
        for record in file.read():
            self._positions[origin] = file.lines.position
            yield record
        for record in file.lines.last():
            self._positions[origin] = file.lines.position
            yield record
        file.close()

    def positions(self) -> Mapping[str, int]:
        """Where the next record starts, by file: a byte, or a row or sample of a file that is no lines."""
        return dict(self._positions)

    def close(self) -> None:
        """Close what is open."""
        self._parquet.close()
        if self._open is not None:
            self._open.close()


def open_archive(path: Path, *, limit: int, positions: Mapping[str, int]) -> ArchiveSource:
    """Return the source for a folder with folders, or for a file of rows; SourceError when nothing can be read."""
    files = [path] if path.is_file() else find_files(path)
    if not files:
        raise SourceError(
            f"{path}: no file in it, or in a folder below, ends in {', '.join(SUFFIXES)}; name another folder"
        )
    return ArchiveSource(files, limit=limit, positions=positions)
