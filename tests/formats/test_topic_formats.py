"""Topics with formats of their own: each record is read in its topic's."""

from __future__ import annotations

import json

import pytest

from stream_guard.decoding.reader import EventReader
from stream_guard.errors import SettingsError
from stream_guard.judge.model import Event
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.settings import load_settings
from tests.formats.renderings import tau2
from tests.formats.session import SESSION_ID, view
from tests.formats.telemetry import Refused, otlp_events
from tests.formats.test_corpus import RENDERERS, decode

REGISTRY = build_registry()


def test_each_topic_is_read_in_its_own_format() -> None:
    decoder = Assembly(load_settings(decode={"formats": {"runs": "tau2"}}), REGISTRY).make_decoder("native")
    [run] = tau2()
    assert list(decoder.decode(Record(run, "runs/3"))) == decode("tau2")
    [*native] = RENDERERS["native"]()
    assert [event for value in native for event in decoder.decode(Record(value, "other/0"))] == decode("native")


def test_spans_and_their_log_records_on_two_topics_are_one_session() -> None:
    [export] = map(json.loads, otlp_events())
    records = [
        Record(json.dumps({"resourceLogs": export["resourceLogs"]}).encode(), "logs/0"),
        Record(json.dumps({"resourceSpans": export["resourceSpans"]}).encode(), "spans/0"),
    ]
    settings = load_settings(decode={"formats": {"logs": "otlp-json", "spans": "otlp-json"}})
    refused = Refused()
    reader = EventReader(Assembly(settings, REGISTRY).make_decoder("native"), refused)
    events: list[Event] = [*reader.read_all(records), *reader.finish()]
    assert refused.reasons == []
    assert {event.session_id for event in events} == {SESSION_ID}
    assert view(events) == view(decode("otlp-json:events"))


def test_unknown_format_of_a_topic_is_refused_with_those_there_are() -> None:
    with pytest.raises(SettingsError, match=r"unknown format 'tau3'; did you mean .tau2.\?; installed: action-steps"):
        Assembly(load_settings(decode={"formats": {"runs": "tau3"}}), REGISTRY).make_decoder("native")
