"""Archives that expand: small files that would fill the memory stop with a reason, honest ones are read."""

from __future__ import annotations

import gzip
import json
import re
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.errors import SourceError
from stream_guard.ports import Record
from stream_guard.sources import archive, open_source, packing
from stream_guard.sources.packing import ExpansionError, check_expansion
from tests.unit.sources.lying_parquet import LIES, write

MB = 1 << 20
TEXT = {"type": "record", "name": "row", "fields": [{"name": "value", "type": "string"}]}


def read(path: Path) -> list[Record]:
    return [record for record in open_source(str(path)) if record is not None]


def problem(path: Path) -> str:
    """Return why the rest of a file cannot be read: one record stands for it."""
    *before, last = read(path)
    assert not any(record.problem for record in before)
    return last.problem


@contextmanager
def within(most: int) -> Iterator[None]:
    """Hold that Python's own memory grows by no more than so many bytes."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test reaches in no time."""
    monkeypatch.setattr(packing, "FREE", MB)
    monkeypatch.setattr(archive, "MAX_BLOCK", MB)


def write_avro(
    path: Path, rows: list[Any], codec: str = "deflate", schema: Any = TEXT, level: int | None = None
) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows, codec=codec, sync_interval=100 * MB)


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "lz4", "snappy"])
def test_a_block_of_avro_that_expands_too_far_is_refused_before_it_is_in_memory(
    tmp_path: Path, codec: str, small_limits: None
) -> None:
    write_avro(tmp_path / "bomb.avro", [{"value": "A" * 20 * MB}], codec)
    with within(16 * MB):
        assert re.search(r"a block of \d+ bytes expands to \d+ or more", problem(tmp_path / "bomb.avro"))


NULLS = {"type": "array", "items": "null"}
EMPTY = {"type": "record", "name": "nothing", "fields": [{"name": "none", "type": "null"}]}


@pytest.mark.parametrize(
    ("schema", "row"),
    [
        (EMPTY, {"none": None}),
        ({**TEXT, "fields": [{"name": "value", "type": {"type": "array", "items": "null"}}]}, {"value": [None]}),
        ({**TEXT, "fields": [{"name": "value", "type": {"type": "array", "items": EMPTY}}]}, {"value": []}),
        (
            {**TEXT, "fields": [{"name": "value", "type": ["null", {"type": "array", "items": "null"}]}]},
            {"value": None},
        ),
    ],
)
def test_items_of_avro_that_take_no_bytes_are_refused(tmp_path: Path, schema: Any, row: Any) -> None:
    write_avro(tmp_path / "bomb.avro", [row], schema=schema)
    assert "that take no bytes" in problem(tmp_path / "bomb.avro")


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "lz4", "snappy"])
def test_honest_avro_is_read(tmp_path: Path, codec: str) -> None:
    linked = {"type": "record", "name": "link", "fields": [{"name": "next", "type": ["null", "link"]}]}
    fields = [{"name": "n", "type": "long"}, {"name": "a", "type": {"type": "array", "items": "int"}}]
    schema = {"type": "record", "name": "row", "fields": [*fields, {"name": "l", "type": linked}]}
    rows = [{"n": n, "a": [1, 2], "l": {"next": {"next": None}}} for n in range(1000)]
    write_avro(tmp_path / "rows.avro", rows, codec, schema)
    assert [json.loads(record.value)["n"] for record in read(tmp_path / "rows.avro")] == list(range(1000))


@pytest.mark.long
def test_a_long_text_that_many_rows_of_parquet_share_is_not_in_memory_for_all_of_them(tmp_path: Path) -> None:
    table = pa.table({"value": pa.DictionaryArray.from_arrays(pa.array([0] * 200, pa.int32()), ["x" * 4 * MB])})
    pq.write_table(table, tmp_path / "rows.parquet", compression="zstd")
    assert (tmp_path / "rows.parquet").stat().st_size < 10_000
    with within(200 * MB):
        assert sum(1 for record in open_source(str(tmp_path / "rows.parquet")) if record) == 200


def test_a_column_of_parquet_that_expands_too_far_is_refused(tmp_path: Path) -> None:
    table = pa.table({"value": ["x" * 70 * MB]})
    pq.write_table(table, tmp_path / "rows.parquet", compression="zstd", use_dictionary=False)
    said = problem(tmp_path / "rows.parquet")
    assert re.search(r"column value expands to \d+ bytes or more, over 1000 times its", said)


def test_parquet_files_whose_footers_lie_are_dead_letters_and_the_next_file_is_read(tmp_path: Path) -> None:
    """Whatever a footer says: the process that reads it may end, and this one goes on."""
    for number, lies in enumerate(LIES.values()):
        write(tmp_path / f"{number}.parquet", **lies)
    write(tmp_path / f"{len(LIES)}.parquet")
    with within(16 * MB):
        records = read(tmp_path)
    said = {Path(record.origin).stem: record.problem for record in records if record.problem}
    passed = [what for number, what in enumerate(LIES) if "cannot be read beyond row" not in said.get(str(number), "")]
    assert passed == []
    assert len(said) == len(LIES)
    honest = [record.value for record in records if Path(record.origin).stem == str(len(LIES))]
    assert honest == [b'{"n":0}', b'{"n":1}', b'{"n":2}']


def test_honest_parquet_is_read_in_order_over_row_groups(tmp_path: Path) -> None:
    table = pa.table({"n": list(range(2000)), "word": ["same"] * 2000, "list": [[1, 2]] * 2000})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=300)
    rows = [json.loads(record.value) for record in read(tmp_path / "rows.parquet")]
    assert [row["n"] for row in rows] == list(range(2000))
    assert rows[7] == {"n": 7, "word": "same", "list": [1, 2]}


def test_packed_lines_that_expand_too_far_stop_with_a_reason(tmp_path: Path, small_limits: None) -> None:
    (tmp_path / "bomb.jsonl.zst").write_bytes(zstandard.compress(b"\n" * 40 * MB))
    with pytest.raises(SourceError, match=r"expands to \d+ bytes or more, over 1000 times its"):
        read(tmp_path / "bomb.jsonl.zst")


def test_packed_lines_that_repeat_themselves_are_read(tmp_path: Path, small_limits: None) -> None:
    lines = b'{"kind": "tool_call", "session_id": "s", "tool": "look"}\n' * 100_000
    (tmp_path / "lines.jsonl.gz").write_bytes(gzip.compress(lines))
    assert len(read(tmp_path / "lines.jsonl.gz")) == 100_000


@given(packed=st.integers(0, 2**40), unpacked=st.integers(0, 2**50))
def test_expansion_is_refused_beyond_both_limits_only(packed: int, unpacked: int) -> None:
    try:
        check_expansion(packed, unpacked, packing.FREE)
    except ExpansionError:
        assert unpacked > max(packing.FREE, 1000 * packed)
    else:
        assert unpacked <= max(packing.FREE, 1000 * packed)
