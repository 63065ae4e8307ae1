"""Findings of recordings name the file and the line of their events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_guard.decoding.places import RecordPlaces
from stream_guard.errors import Place
from stream_guard.judge.model import ToolCall
from stream_guard.ports import Record
from stream_guard.running.assembly import Assembly


def call(event_id: str, session: str = "s", **more: Any) -> ToolCall:
    return ToolCall(session_id=session, event_id=event_id, tool="t", **more)


def test_an_event_stands_where_its_record_does_and_a_block_where_its_turn_does() -> None:
    places = RecordPlaces()
    places.note(Record(b"{}", "a.jsonl", line=7), call("e1"))
    assert places.of("s", "e1") == places.of("s", "e1/0") == Place("a.jsonl", 7)
    assert places.of("s", "e2") is None
    assert places.of("other", "e1") is None


def test_records_without_lines_give_no_place() -> None:
    places = RecordPlaces()
    places.note(Record(b"{}", "topic/0", position=4), call("e1"))
    assert places.of("s", "e1") is None


def test_what_a_decoder_told_of_an_event_that_waited_goes_before_the_record_that_released_it() -> None:
    places = RecordPlaces()
    places.tell(call("earlier"), "a", 1)
    places.tell(call("earlier", "other"), "a", 2)
    places.note(Record(b"{}", "a", line=3), call("here"))
    places.note(Record(b"{}", "a", line=3), call("earlier"))
    places.note(None, call("earlier", "other"))
    assert [places.of("s", "here"), places.of("s", "earlier")] == [Place("a", 3), Place("a", 1)]
    assert places.of("other", "earlier") == Place("a", 2)


def test_what_was_told_of_events_that_nobody_noted_is_forgotten() -> None:
    places = RecordPlaces()
    places.tell(call("e1"), "a", 1)
    places.forget_told()
    places.note(None, call("e1"))
    assert places.of("s", "e1") is None


def test_memory_is_bounded_and_the_latest_events_are_known() -> None:
    places = RecordPlaces()
    for line in range(1, 1001):
        places.note(Record(b"", "a", line=line), call(f"e{line}"))
    assert places.of("s", "e1000") == Place("a", 1000)
    assert places.of("s", "e1") is None
    whole = RecordPlaces(whole="s")
    for line in range(1, 1001):
        whole.note(Record(b"", "a", line=line), call(f"e{line}"))
        whole.note(Record(b"", "a", line=line), call(f"e{line}", "other"))
    assert whole.of("s", "e1") == Place("a", 1)
    assert whole.of("other", "e1") is None


@pytest.mark.parametrize("named", [True, False])
def test_events_of_a_file_are_found_again_by_the_ids_they_get_when_they_are_judged(tmp_path: Path, named: bool) -> None:
    file = tmp_path / "trace.jsonl"
    lines = [
        {"kind": "tool_call", "session_id": "s", "tool": f"t{n}"} | ({"event_id": f"e{n}"} if named else {})
        for n in range(3)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    places = RecordPlaces()
    with Assembly() as assembly:
        events = list(assembly.read_events([str(file)], "auto", places=places))
    assert [places.of("s", event.event_id) for event in events if event.event_id] == [
        Place(str(file), n + 1) for n in range(3)
    ]
