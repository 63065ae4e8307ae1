"""JSON over many lines: what is a record, where it starts, and what happens to what is too large or broken."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.ports import Record
from stream_guard.sources import open_source
from stream_guard.sources.documents import DocumentSplitter, is_document

VALUES: list[Any] = [
    {"a": 'quotes " and \\ and } ] [ {', "b": [1, {"c": []}]},
    {"d": "ünïcode\n", "e": {}},
    [{"f": 1}, {"g": "\\"}],
]


def split(text: bytes, sizes: list[int], limit: int = 1 << 20) -> list[Record]:
    splitter = DocumentSplitter("file", limit)
    found: list[Record] = []
    left = text
    for size in sizes:
        found += splitter.split(left[:size])
        left = left[size:]
    found += splitter.split(left)
    return [*found, *splitter.last()]


@given(st.lists(st.integers(1, 30), max_size=20), st.sampled_from([1, 2, None]), st.booleans())
def test_values_are_the_same_wherever_chunks_end(sizes: list[int], indent: int | None, crlf: bool) -> None:
    text = "\n".join(json.dumps(value, indent=indent) for value in VALUES).encode()
    text = text.replace(b"\n", b"\r\n") if crlf else text
    found = split(text, sizes)
    assert [json.loads(record.value) for record in found] == VALUES
    assert all(text[record.position :].startswith(record.value) for record in found)
    assert [record.line for record in found] == [text[: record.position].count(b"\n") + 1 for record in found]


@given(st.lists(st.integers(1, 50), max_size=20))
def test_an_array_over_the_limit_is_split_into_its_items(sizes: list[int]) -> None:
    items = [{"n": number, "text": "x" * 20} for number in range(20)]
    text = json.dumps(items, indent=1).encode()
    found = split(text, sizes, limit=100)
    assert [json.loads(record.value) for record in found] == items
    assert all(not record.truncated for record in found)


@given(st.lists(st.integers(1, 50), max_size=20))
def test_an_object_over_the_limit_is_cut_and_the_next_one_is_read(sizes: list[int]) -> None:
    large = json.dumps({"text": ["y" * 50] * 10}, indent=1).encode()
    found = split(large + b"\n" + b'{"a":\n1}', sizes, limit=100)
    assert [record.truncated for record in found] == [len(large), 0]
    assert len(found[0].value) <= 100
    assert json.loads(found[1].value) == {"a": 1}


def test_reading_goes_on_at_every_position_inside_a_split_array() -> None:
    items = [{"n": number, "text": "x" * 20} for number in range(5)]
    text = json.dumps(items, indent=1).encode()
    for number, record in enumerate(split(text, [], limit=100)):
        splitter = DocumentSplitter("file", 100)
        splitter.restart(record.position, None)
        rest = [*splitter.split(text[record.position :]), *splitter.last()]
        assert [json.loads(one.value) for one in rest] == items[number:]


def test_a_value_without_an_end_is_one_record() -> None:
    found = split(b'{"a":\n1}\n{"b": [\n1,', [])
    assert [record.value for record in found] == [b'{"a":\n1}', b'{"b": [\n1,']


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        (b'{\n "a": 1\n}', True),
        (b"[\n{}", True),
        (b'[{"a": 1},\n{"a": 2}]', True),
        (b'\xef\xbb\xbf{"a": {\n', True),
        (b'{"a": 1}\n{"a": 2}\n', False),
        (b'[{"a": 1}]\n', False),
        (b'{"broken": \x00\n{"a": 1}\n', False),
        (b'{\n{"a": 1}\n', False),
        (b'[\n{"a": 1}\n{"a": 2}\n', False),
        (b'{"x":\n{"a": 1}\n{"a": 2}\n', False),
        (b'[\n{"a": 1}\n', True),  # it may be: what follows will show
        (b'not JSON\n{\n "a": 1\n}', True),
        (b'not JSON\n{"a": 1}\n', False),
        (b'{"a": "cut off\n{"a": 1}\n', False),
        (b"[" * 300 + b'\n{"a": 1}\n', False),
        (b"{\n" * 100 + b'{\n "a": 1\n}', False),  # it is not looked at without end
        (b'{"a": 1', None),
        (b"plain text,\n", None),
        (b"", None),
    ],
)
def test_values_over_many_lines_are_told_from_lines(head: bytes, wanted: bool | None) -> None:
    assert is_document(head) is wanted


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.jsonl"])
def test_a_file_of_indented_values_gives_its_values(tmp_path: Path, name: str) -> None:
    text = "\n".join(json.dumps(value, indent=2) for value in VALUES).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    source = open_source(str(path))
    assert [json.loads(record.value) for record in source if record is not None] == VALUES
    (position,) = source.positions().values()
    assert position == len(text)
    again = open_source(str(path), positions=source.positions())
    assert [record for record in again if record is not None] == []


def test_a_folder_of_mixed_files_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    (tmp_path / "b.json").write_text(json.dumps({"b": 1}, indent=2))
    (tmp_path / "c.json.gz").write_bytes(gzip.compress(b'{"c": 1}\n'))
    found = [json.loads(record.value) for record in open_source(str(tmp_path)) if record is not None]
    assert found == [{"a": 1}, {"a": 2}, {"b": 1}, {"c": 1}]
