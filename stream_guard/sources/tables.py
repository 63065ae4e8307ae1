"""Rows of Avro and Parquet files as records, with the extra ``archives``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from stream_guard.distribution import install_line
from stream_guard.errors import SourceError
from stream_guard.ports import Record
from stream_guard.sources.avro import check_avro
from stream_guard.sources.parquet import rows_at_once
from stream_guard.sources.splitting import HEAD

AVRO: Final = ".avro"
PARQUET: Final = ".parquet"
_BATCH: Final = 256  # rows that are in memory at the same time, or fewer

_encode = msgspec.json.Encoder().encode


class TableFile:
    """One file of rows. ``position`` is the number of the next row.

    A row with a text or bytes in the column ``value`` is from a dump of a topic: that value is the record, with the
    column ``key`` as its key. Any other row is a record itself, as a JSON object without the columns that are null.
    """

    def __init__(self, path: Path, origin: str, *, limit: int, position: int = 0) -> None:
        self.path = path
        self.origin = origin
        self.position = position
        self._limit = limit
        self._package = _load(path)

    def read(self) -> Iterator[Record]:
        """Yield the records from the position on; SourceError where the file is not what it says it is."""
        rows = self._avro() if self.path.name.endswith(AVRO) else self._parquet()
        number = -1
        while True:
            try:
                row = next(rows, None)
                record = None if row is None else self._record(row, number + 1)
            except Exception as error:  # the packages raise many sorts of exceptions on broken bytes
                raise SourceError(
                    f"{self.path}: cannot be read beyond row {number + 1}: {error}; mend it or take it away"
                ) from error
            if record is None:
                return
            number += 1
            if number < self.position:
                continue
            self.position = number + 1  # before the yield: a checkpoint taken now must not repeat this record
            yield record

    def _avro(self) -> Iterator[Mapping[str, Any]]:
        with self.path.open("rb") as file:
            check_avro(file, self._package)
            file.seek(0)
            yield from self._package.reader(file)

    def _parquet(self) -> Iterator[Mapping[str, Any]]:
        with self._package.ParquetFile(self.path) as file, self.path.open("rb") as raw:
            for number in range(file.num_row_groups):
                rows = rows_at_once(file.metadata.row_group(number), raw, _BATCH)
                for batch in file.iter_batches(batch_size=rows, row_groups=[number]):
                    yield from batch.to_pylist()

    def _record(self, row: Mapping[str, Any], number: int) -> Record:
        value, key = row.get("value"), row.get("key")
        if isinstance(value, str | bytes):
            written = value.encode() if isinstance(value, str) else value
            found_key = key.encode() if isinstance(key, str) else key if isinstance(key, bytes) else None
        else:
            written, found_key = _encode({name: item for name, item in row.items() if item is not None}), None
        size = len(written)
        if size > self._limit:
            head = written[: min(HEAD, self._limit)]
            return Record(head, self.origin, number, number + 1, key=found_key, truncated=size)
        return Record(written, self.origin, number, number + 1, key=found_key)


def _load(path: Path) -> Any:
    try:
        # Imported here: they load slowly, and most runs never need them.
        if path.suffix == AVRO:
            import fastavro  # noqa: PLC0415

            return fastavro
        import pyarrow.parquet  # noqa: PLC0415

    except ImportError as error:
        raise SourceError(
            f"{path}: reading {path.suffix} needs an extra: {install_line('archives')} ({error})"
        ) from error
    return pyarrow.parquet
