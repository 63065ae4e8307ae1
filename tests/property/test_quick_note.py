"""Noting of usual events in the compiled build: what the plain one notes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard import Event, Record, SessionEnd, ToolCall, Turn, UserMessage
from stream_guard.decoding import quick_note as plain
from stream_guard.decoding.places import RecordPlaces
from tests.c_modules import open_c_module

QuickNote = Callable[[dict[str, list[Any]], int, Record | None, Event], bool]
MOST = 6


@pytest.fixture(scope="module")
def quick_note(tmp_path_factory: pytest.TempPathFactory) -> QuickNote:
    """The compiled form."""
    note: QuickNote = open_c_module(plain, tmp_path_factory.mktemp("c")).quick_note
    return note


IDS = st.sampled_from(["", "~", "~1", "a", "b", "é", "\0"])
EVENTS = st.one_of(
    st.builds(lambda session, event: Turn(session_id=session, event_id=event), IDS, IDS),
    st.builds(lambda session, event: ToolCall(session_id=session, event_id=event, tool="t"), IDS, IDS),
    st.builds(lambda session, event: UserMessage(session_id=session, event_id=event), IDS, IDS),
    st.builds(lambda session, event: SessionEnd(session_id=session, event_id=event), IDS, IDS),
)
RECORDS = st.one_of(st.none(), st.builds(lambda line: Record(b"", "file", line=line), st.sampled_from([0, 1, 2**40])))


@given(noted=st.lists(st.tuples(RECORDS, EVENTS), max_size=20))
def test_usual_events_get_three_entries_and_others_none(
    quick_note: QuickNote, noted: list[tuple[Record | None, Event]]
) -> None:
    recent: dict[str, list[Any]] = {"a": [], "é": []}
    expected: dict[str, list[Any]] = {"a": [], "é": []}
    for record, event in noted:
        entries = expected.get(event.session_id)
        is_usual = record is not None and record.line > 0 and event.event_id not in ("", "~", "~1")
        done = is_usual and entries is not None and len(entries) < MOST
        if done and record is not None and entries is not None:
            entries += [event.event_id, record.origin, record.line]
        assert quick_note(recent, MOST, record, event) is done
    assert recent == expected


@pytest.mark.parametrize("event_id", [0, 5, 2**70, -1.5, True, None, b"id", [], ("a",), object, {"a": 1}], ids=repr)
def test_an_id_that_is_no_text_is_left_to_the_longer_way(quick_note: QuickNote, event_id: Any) -> None:
    recent: dict[str, list[Any]] = {"a": []}
    event = ToolCall(session_id="a", event_id=event_id, tool="t")
    assert quick_note(recent, MOST, Record(b"", "file", line=1), event) is False
    assert recent == {"a": []}


@given(noted=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), max_size=400))
def test_places_are_the_same(quick_note: QuickNote, noted: list[tuple[str, int]]) -> None:
    patch = pytest.MonkeyPatch()
    answers = []
    for note in (plain.quick_note, quick_note):
        patch.setattr("stream_guard.decoding.places.quick_note", note)
        places = RecordPlaces()
        for line, (session, number) in enumerate(noted, 1):
            places.note(Record(b"", "file", line=line), Turn(session_id=session, event_id=f"e{number}"))
        answers.append([places.of(session, f"e{number}") for session in "abc" for number in range(10)])
    patch.undo()
    assert answers[0] == answers[1]
