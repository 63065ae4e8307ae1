"""Names that would fill states, alerts and the history are refused where they come in."""

from __future__ import annotations

import json

import pytest
from stream_guard_formats.native.decoder import NativeDecoder

from stream_guard.alerting.alerts import encode_alert, make_alert
from stream_guard.decoding.reader import MAX_NAME, EventReader
from stream_guard.judge.model import Event, Finding, Severity
from stream_guard.ports import Record


class RefusedRecords:
    """Reasons of dead letters, kept in a list."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def add(self, record: Record, reason: str) -> None:
        del record
        self.reasons.append(reason)


CALL = {"kind": "tool_call", "session_id": "s", "event_id": "e", "tool": "wipe", "call_id": "c", "args": {}}


def read(**fields: object) -> tuple[list[Event], list[str]]:
    letters = RefusedRecords()
    reader = EventReader(NativeDecoder(), letters)
    return reader.read(Record(json.dumps(CALL | fields).encode())), letters.reasons


@pytest.mark.parametrize("field", ["session_id", "event_id", "agent", "run_id", "trace_id", "part", "tool", "call_id"])
def test_a_name_that_is_too_long_is_a_dead_letter_and_its_call_still_an_attempt(field: str) -> None:
    events, reasons = read(**{field: "x" * 4_000_000})
    assert len(reasons) == 1
    assert field in reasons[0]
    assert "4000000 characters" in reasons[0]
    assert all(event.session_id == "s" and getattr(event, "contested", "") for event in events)
    assert all(len(str(getattr(event, field, ""))) < 2_000 for event in events)


def test_names_in_a_path_and_of_labels_are_bounded_too() -> None:
    assert read(agent_path=["x" * 4_000_000])[1]
    assert read(agent_path=["x"] * 500)[1]
    assert read(labels={"x" * 4_000_000: "y"})[1]


def test_a_long_text_is_no_long_name() -> None:
    events, reasons = read(args={"text": "x" * 100_000}, agent="a" * MAX_NAME, labels={"note": "y" * 5_000})
    assert reasons == []
    assert len(events) == 1


def test_of_long_names_in_this_process_an_alert_keeps_the_beginning() -> None:
    long = "x" * 4_000_000
    finding = Finding(
        alert_id="a", rule_id="r", slot="r", kind="no_call", severity=Severity.ERROR, session_id="s", event_id=long,
        index=None, time=None, detail=long, part=long, run_id=long, agent=long, labels={"a": long},
        evidence={"b": long},
    )  # fmt: skip
    assert len(encode_alert(make_alert(finding, "v"))) < 10_000
