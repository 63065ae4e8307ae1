"""Rows of Avro and Parquet files as records, with the extra ``archives``."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from stream_guard.distribution import install_line
from stream_guard.errors import SourceError
from stream_guard.ports import Record
from stream_guard.sources.avro import check_avro
from stream_guard.sources.parquet_process import ParquetReader
from stream_guard.sources.rows import WrittenRow, written_row

AVRO: Final = ".avro"
PARQUET: Final = ".parquet"


class TableFile:
    """One file of rows. ``position`` is the number of the next row."""

    def __init__(self, path: Path, origin: str, *, limit: int, position: int = 0, parquet: ParquetReader) -> None:
        self.path = path
        self.origin = origin
        self.position = position
        self._limit = limit
        self._parquet = parquet
        _require(path)

    def read(self) -> Iterator[Record]:
        """Yield the records from the position on; SourceError where the file is not what it says it is."""
        rows = self._avro() if self.path.name.endswith(AVRO) else self._parquet.rows(self.path, self._limit)
        number = -1
        while True:
            try:
                row = next(rows, None)
            except Exception as error:  # the packages raise many sorts of exceptions on broken bytes
                raise SourceError(
                    f"{self.path}: cannot be read beyond row {number + 1}: {error}; mend it or take it away"
                ) from error
            if row is None:
                return
            number += 1
            if number < self.position:
                continue
            self.position = number + 1  # before the yield: a checkpoint taken now must not repeat this record
            yield Record(row.value, self.origin, number, number + 1, key=row.key, truncated=row.truncated)

    def _avro(self) -> Iterator[WrittenRow]:
        import fastavro  # noqa: PLC0415  # it loads slowly, and most runs never need it

        with self.path.open("rb") as file:
            check_avro(file, fastavro)
            file.seek(0)
            rows: Iterator[Any] = fastavro.reader(file)
            for row in rows:
                yield written_row(row, self._limit)


def _require(path: Path) -> None:
    """Raise SourceError where the package that reads a file is not installed."""
    if find_spec("fastavro" if path.suffix == AVRO else "pyarrow") is None:
        raise SourceError(f"{path}: reading {path.suffix} needs an extra: {install_line('archives')}")
