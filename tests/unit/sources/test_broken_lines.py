"""A line that is no JSON is one record, and costs none of the records behind it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.ports import Record
from stream_guard.settings import DecodeSettings
from stream_guard.sources import open_source
from stream_guard.sources.documents import DocumentSplitter
from stream_guard.sources.lines import PipeSource

BROKEN = [
    "{",
    "[",
    "}",
    "]",
    ",",
    '"',
    "{{",
    "[[",
    "[{",
    '{"',
    '{"kind"',
    '{"kind":',
    '{"kind": "tool_call", "x":',
    '{"kind": "tool_call",',
    '{"kind": "tool_call", "x": [',
    '{"kind": "tool_call", "x": {"y": [1, 2,',
    '{"kind": "cut off',
    '{"kind": "ends in an escape \\\\',
    '[{"kind": "tool_call"},',
    "[1, 2,",
    "[" * 300,
    '{"a":' * 300,
    "not JSON at all,",
    "# a comment {",
    "\ufeff{",
    "\x00",
]
EVENTS = [{"kind": "tool_call", "n": number, "text": 'a } ] , { [ \\" b'} for number in range(6)]
FORMS = {
    "lines": "\n".join(json.dumps(event) for event in EVENTS) + "\n",
    "lines without an end": "\n".join(json.dumps(event) for event in EVENTS),
    "lines of Windows": "\r\n".join(json.dumps(event) for event in EVENTS) + "\r\n",
    "indented values": "\n".join(json.dumps(event, indent=2) for event in EVENTS) + "\n",
}


def events_of(records: list[Record]) -> tuple[list[Any], int]:
    """Return the events that records hold, and how many records hold none."""
    found, broken = list[Any](), 0
    for record in records:
        try:
            value = json.loads(record.value)
        except ValueError:
            broken += 1
            continue
        found += value if isinstance(value, list) else [value]
    return found, broken


def read(path: Path, **options: Any) -> list[Record]:
    return [record for record in open_source(str(path), **options) if record is not None]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_first_line_costs_no_record_behind_it(tmp_path: Path, broken: str, form: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(f"{broken}\n{FORMS[form]}", newline="")
    found, rest = events_of(read(path))
    assert found == EVENTS
    assert rest <= 1


@pytest.mark.parametrize("form", ["lines", "indented values"])
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_line_between_values_costs_none_of_them(tmp_path: Path, broken: str, form: str) -> None:
    indent = 2 if form == "indented values" else None
    path = tmp_path / "events.jsonl"
    lines = [json.dumps(event, indent=indent) for event in EVENTS]
    path.write_text("\n".join([*lines[:3], broken, *lines[3:]]) + "\n")
    found, rest = events_of(read(path))
    assert [event for event in found if "n" in event] == EVENTS
    assert rest <= 1


@pytest.mark.parametrize("broken", BROKEN)
def test_places_behind_a_broken_line_are_those_of_the_file(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "events.jsonl"
    text = f"{broken}\n{FORMS['lines']}".encode()
    path.write_bytes(text)
    records = read(path)
    for record in records:
        assert text[record.position :].startswith(record.value)
        assert record.line == text[: record.position].count(b"\n") + 1
    last = records[-1]
    assert read(path, positions={str(path): last.position}) == [last]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_pipe_is_read_like_a_file(broken: str) -> None:
    ours, theirs = os.pipe()
    text = f"{broken}\n{FORMS['lines']}".encode()

    def write() -> None:
        for at in range(0, len(text), 7):
            os.write(theirs, text[at : at + 7])
        os.close(theirs)

    writer = Thread(target=write)
    writer.start()
    source = PipeSource(ours, "pipe", limit=1 << 20, owned=True)
    found, rest = events_of([record for record in source if record is not None])
    writer.join()
    source.close()
    assert found == EVENTS
    assert rest <= 1


def test_an_array_that_is_cut_off_gives_the_values_that_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text(json.dumps(EVENTS, indent=2)[:-30])
    found, rest = events_of(read(path))
    assert found == EVENTS[:-1]
    assert rest == 2  # before them, and behind


def test_a_large_array_that_breaks_gives_the_items_before_and_behind(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    lines = [json.dumps(event) for event in EVENTS]
    path.write_text("[\n" + ",\n".join(lines[:4]) + "\n" + "\n".join(lines[4:]) + "\n")
    found, _ = events_of(read(path, limits=DecodeSettings(max_record_bytes=120)))
    assert found == EVENTS


@given(
    st.lists(st.sampled_from([*BROKEN, *(json.dumps(event) for event in EVENTS), "", "  "]), max_size=25),
    st.lists(st.integers(1, 40), max_size=10),
)
def test_every_byte_is_in_a_record_or_between_values(lines: list[str], sizes: list[int]) -> None:
    text = "\n".join(lines).encode()
    splitter = DocumentSplitter("file", 1 << 20)
    records, left = list[Record](), text
    for size in sizes:
        records += splitter.split(left[:size])
        left = left[size:]
    records += [*splitter.split(left), *splitter.last()]
    assert splitter.position == splitter.offset
    at = 0
    for record in records:
        assert not text[at : record.position].strip(b" \t\r\n,]\x00\xef\xbb\xbf")
        assert text[record.position :].startswith(record.value)
        at = record.position + len(record.value)
    assert not text[at:].strip(b" \t\r\n,]\x00\xef\xbb\xbf")


@pytest.mark.parametrize("piece", [b"[", b"[\n", b"{\n", b'{"a":\n', b"[1,\n", b'[{"a":[\n', b"[" * 200 + b"\n"])
def test_nesting_without_end_is_scanned_a_few_times_only(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is no JSON must not have all that follows it scanned again, line after line."""
    from stream_guard.sources import documents

    taken = 0
    take = documents.JsonScanner._take

    def count(self: documents.JsonScanner, sign: str) -> bool:
        nonlocal taken
        taken += 1
        return take(self, sign)

    monkeypatch.setattr(documents.JsonScanner, "_take", count)
    text = piece * (60_000 // len(piece))
    splitter = DocumentSplitter("file", 8 << 20)
    for at in range(0, len(text), 4096):
        list(splitter.split(text[at : at + 4096]))
    list(splitter.last())
    assert taken < 40 * len(text)
