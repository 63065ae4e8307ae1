"""Recordings in .agentlog: read, written, and with the ids that others compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from stream_guard_diff.agentlog import agentlog_lines, canonical_payload, record_id
from stream_guard_diff.trails import canonical, digest
from stream_guard_formats.files.agentlog import AgentlogDecoder

from stream_guard import DecodeError, Event, Record, ToolCall, ToolResult, Turn
from tests.vectors.case import read_cases

VECTORS = Path(__file__).parents[2] / "golden" / "vectors" / "diff" / "fingerprint.json"


def decode(lines: list[str], origin: str = "/logs/refund.agentlog") -> list[Event]:
    decoder = AgentlogDecoder()
    events: list[Event] = []
    position = 0
    for number, line in enumerate(lines, 1):
        events += decoder.decode(Record(line.encode(), origin, position, number))
        position += len(line) + 1
    return events


def test_ids_are_those_of_the_measured_system() -> None:
    assert record_id({"hello": "world"}).startswith("sha256:93a23971a914e5ea")
    records = [record for case in read_cases(VECTORS) for record in case.data["agentlog"]]
    assert records
    assert [record_id(record["payload"]) for record in records] == [record["id"] for record in records]


def test_the_canonical_form_has_no_exponents_and_composed_strings() -> None:
    value = {"b": 1e21, "a": -0.0, "c": [1.0, 0.000001, float("nan")], "e\u0301": "e\u0301\n"}
    assert canonical_payload(value) == ('{"a":0,"b":1000000000000000000000,"c":[1,0.000001,null],"\u00e9":"\u00e9\\n"}')


def test_what_was_written_is_read_again() -> None:
    events: list[Event] = [
        Turn(session_id="s1", time=10.5, request={"model": "m"}, response={"stop_reason": "tool_use"}),
        ToolCall(session_id="s1", time=11.0, tool="refund", call_id="c1", args={"amount": 5}),
        ToolResult(session_id="s1", time=12.0, call_id="c1", status="error", output="no"),
        Turn(session_id="s1", time=13.0, request={}, response={"stop_reason": "end_turn"}),
    ]
    read = decode(list(agentlog_lines(events)))
    assert [type(event) for event in read] == [Turn, ToolCall, ToolResult, Turn]
    assert [event.time for event in read] == [10.5, 11.0, 12.0, 13.0]
    assert {event.session_id for event in read} == {"s1"}
    assert isinstance(read[0], Turn)
    assert read[0].request == {"model": "m"}
    assert isinstance(read[2], ToolResult)
    assert read[2].status == "error"


def test_equal_answers_are_two_events_and_a_response_takes_the_last_request() -> None:
    def line(kind: str, payload: object) -> str:
        return json.dumps({"version": "0.1", "id": record_id(payload), "kind": kind, "payload": payload})

    answer = {"content": [], "stop_reason": "end_turn"}
    read = decode(
        [
            line("chat_request", {"model": "lost"}),
            line("chat_request", {"model": "kept"}),
            line("chat_response", answer),
            line("chat_response", answer),
            line("harness_event", {}),
        ]
    )
    assert [event.request for event in read if isinstance(event, Turn)] == [{"model": "kept"}, None]
    assert len({event.event_id for event in read}) == 2
    assert {event.session_id for event in read} == {"refund"}


def test_a_record_of_another_format_is_refused_with_advice() -> None:
    with pytest.raises(DecodeError, match="--from-format"):
        decode(['{"kind": "turn", "session_id": "s"}'])


def test_a_second_session_is_refused_by_the_writer() -> None:
    events: list[Event] = [Turn(session_id="a"), Turn(session_id="b")]
    with pytest.raises(ValueError, match="one session"):
        list(agentlog_lines(events))


def test_numbers_that_are_equal_have_one_digest_and_other_values_another() -> None:
    assert digest({"k": 1}) == digest({"k": 1.0})
    assert digest({"k": 0.0}) == digest({"k": -0.0})
    assert digest("e\u0301") == digest("\u00e9")
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert len({digest(value) for value in ({"k": "1"}, {"k": 1}, {"k": None}, {}, None, [1, 2], [2, 1], 2**70)}) == 8


plain = st.text(max_size=6) | st.integers(-(2**53), 2**53) | st.integers()


@given(st.dictionaries(st.text(max_size=4), plain, max_size=4))
def test_the_quick_way_to_canonical_json_is_no_other_way(value: dict[str, Any]) -> None:
    try:
        wanted = rfc8785.dumps(value)
    except rfc8785.CanonicalizationError:
        return
    if wanted.isascii():
        assert canonical(value) == wanted
