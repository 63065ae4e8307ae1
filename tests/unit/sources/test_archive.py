"""Archives: whatever the layout and the packing, the records of the topic, in order, and a place to go on from."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from stream_guard.errors import SourceError
from stream_guard.ports import Record
from stream_guard.settings import DecodeSettings
from stream_guard.sources import open_source
from stream_guard.sources.archive import EVAL, SUFFIXES
from stream_guard.sources.archive import ROWS as OF_ROWS
from tests.parts import import_part

ROWS = [{"kind": "tool_call", "session_id": f"s{n % 3}", "event_id": f"e{n}", "tool": "pay"} for n in range(600)]


def as_lines(rows: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def write_plain(path: Path, rows: Sequence[Any]) -> None:
    path.write_bytes(as_lines(rows))


def write_gzip(path: Path, rows: Sequence[Any]) -> None:
    path.write_bytes(gzip.compress(as_lines(rows)))


def write_zstandard(path: Path, rows: Sequence[Any]) -> None:
    pack = import_part("zstandard").ZstdCompressor().compress
    half = len(rows) // 2  # two frames, as appending makes them
    path.write_bytes(pack(as_lines(rows[:half])) + pack(as_lines(rows[half:])))


def write_avro(path: Path, rows: Sequence[Any]) -> None:
    fastavro = import_part("fastavro")
    fields = [{"name": name, "type": ["null", "string", "bytes"]} for name in rows[0]]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "event", "fields": fields}, rows)


def write_parquet(path: Path, rows: Sequence[Any]) -> None:
    pyarrow, parquet = import_part("pyarrow"), import_part("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path, row_group_size=100)


WRITERS: dict[str, Callable[[Path, Sequence[Any]], None]] = {
    ".jsonl": write_plain,
    ".jsonl.gz": write_gzip,
    ".jsonl.zst": write_zstandard,
    ".json": write_plain,
    ".json.gz": write_gzip,
    ".json.zst": write_zstandard,
    ".ndjson": write_plain,
    ".ndjson.gz": write_gzip,
    ".ndjson.zst": write_zstandard,
    ".traj": write_plain,
    ".traj.gz": write_gzip,
    ".traj.zst": write_zstandard,
    ".avro": write_avro,
    ".parquet": write_parquet,
}
SORTS = (".jsonl.gz", ".jsonl.zst", ".avro", ".parquet")


def read(target: Path, positions: dict[str, int] | None = None) -> list[Record]:
    source = open_source(str(target), positions=positions)
    try:
        return [record for record in source if record is not None]
    finally:
        source.close()


def values(records: Iterable[Record]) -> list[Any]:
    return [json.loads(record.value) for record in records]


def test_every_ending_that_is_read_is_tested() -> None:
    assert set(WRITERS) == set(SUFFIXES) - {EVAL}  # whose content is of another sort: test_eval_logs.py


@pytest.mark.parametrize("ending", WRITERS)
def test_connect_layout_is_read_partition_by_partition_and_by_offset(ending: str, tmp_path: Path) -> None:
    wanted: list[Any] = []
    for partition in (0, 2, 10):
        for start in (0, 100):
            folder = tmp_path / "topics" / "events" / f"partition={partition}"
            folder.mkdir(parents=True, exist_ok=True)
            rows = [row | {"tool": f"{partition}-{start}"} for row in ROWS[:5]]
            WRITERS[ending](folder / f"events+{partition}+{start:010d}{ending}", rows)
            wanted += rows
    (tmp_path / "topics" / "_temporary").mkdir()
    (tmp_path / "topics" / "_temporary" / f"half{ending}").write_bytes(b"not finished")
    assert values(read(tmp_path)) == wanted


def test_folders_by_date_are_read_in_the_order_of_their_dates(tmp_path: Path) -> None:
    for day, hour in (("9", "23"), ("10", "2"), ("10", "11")):
        folder = tmp_path / "2026" / "1" / day / hour
        folder.mkdir(parents=True)
        write_gzip(folder / "events-1.json.gz", [{"at": f"{day}/{hour}"}])
    assert [one["at"] for one in values(read(tmp_path))] == ["9/23", "10/2", "10/11"]


@pytest.mark.parametrize("ending", SORTS)
def test_archive_is_taken_up_where_it_was_left(ending: str, tmp_path: Path) -> None:
    (tmp_path / "day").mkdir()
    WRITERS[ending](tmp_path / "day" / f"events{ending}", ROWS)
    source = open_source(str(tmp_path))
    records = iter(source)
    first = [record for _ in range(250) if (record := next(records)) is not None]
    positions = dict(source.positions())
    source.close()
    assert values([*first, *read(tmp_path, positions)]) == ROWS


@pytest.mark.parametrize("ending", SORTS)
def test_file_that_was_cut_off_is_said_and_not_taken_for_whole(ending: str, tmp_path: Path) -> None:
    (tmp_path / "day").mkdir()
    file = tmp_path / "day" / f"events{ending}"
    WRITERS[ending](file, ROWS)
    file.write_bytes(file.read_bytes()[:-20])
    WRITERS[ending](tmp_path / "day" / f"later{ending}", ROWS[:1])
    said = rf"events{ending}: cannot be read beyond .* mend it or take it away"
    if ending not in OF_ROWS:
        with pytest.raises(SourceError, match=said):
            read(tmp_path)
        return
    records = read(tmp_path)
    [broken] = [record for record in records if record.problem]
    assert re.search(said, broken.problem)
    assert values(records[records.index(broken) + 1 :]) == ROWS[:1], "the next file is read"


@pytest.mark.parametrize("ending", [".avro", ".parquet"])
def test_dump_of_a_topic_gives_its_values_and_keys(ending: str, tmp_path: Path) -> None:
    rows = [{"key": b"s1", "value": json.dumps(row).encode(), "topic": "events"} for row in ROWS[:3]]
    WRITERS[ending](tmp_path / f"dump{ending}", rows)
    records = read(tmp_path / f"dump{ending}")
    assert values(records) == ROWS[:3]
    assert {record.key for record in records} == {b"s1"}


@pytest.mark.parametrize("ending", [".avro", ".parquet"])
def test_column_that_is_null_is_left_out_and_a_row_over_the_limit_is_cut(ending: str, tmp_path: Path) -> None:
    rows = [{"tool": "pay", "text": None}, {"tool": "x" * 500, "text": "y"}]
    WRITERS[ending](tmp_path / f"rows{ending}", rows)
    source = open_source(str(tmp_path / f"rows{ending}"), limits=DecodeSettings(max_record_bytes=100))
    first, second = [record for record in source if record is not None]
    assert json.loads(first.value) == {"tool": "pay"}
    assert second.truncated > 500
    assert len(second.value) == 100


def test_folder_without_anything_to_read_is_refused_with_what_could_be(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    with pytest.raises(SourceError, match=r"no file in it, or in a folder below, ends in \.jsonl"):
        open_source(str(tmp_path))
