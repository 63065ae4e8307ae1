"""Archives: nested folders, as Kafka Connect and object stores write them, read once from end to end."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from stream_guard.errors import SourceError
from stream_guard.ports import Record
from stream_guard.sources.eval_logs import EVAL, EvalFile
from stream_guard.sources.lines import LineFile
from stream_guard.sources.tables import AVRO, PARQUET, TableFile

LINES: Final = (".jsonl", ".ndjson", ".json", ".traj")
PACKINGS: Final = ("", ".gz", ".zst")
ROWS: Final[Mapping[str, type[TableFile | EvalFile]]] = {AVRO: TableFile, PARQUET: TableFile, EVAL: EvalFile}
"""Files that are no lines: what reads them, by the end of their name."""
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
    """The records of files, one after the other. An unreadable file raises SourceError: no record is skipped."""

    def __init__(self, files: list[Path], *, limit: int, positions: Mapping[str, int]) -> None:
        self._positions = dict(positions)
        self._limit = limit
        self._files = files
        self._open: LineFile | None = None

    def __iter__(self) -> Iterator[Record | None]:
        for path in self._files:
            origin = str(path)
            start = self._positions.get(origin, 0)
            if (rows := ROWS.get(path.suffix)) is not None:
                file = rows(path, origin, limit=self._limit, position=start)
                for record in file.read():
                    self._positions[origin] = file.position
                    yield record
            else:
                yield from self._lines(path, origin, start)

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
