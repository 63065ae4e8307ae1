"""CloudEvents: what stands in the headers of a topic's records, and what is wrong with envelopes."""

from __future__ import annotations

import base64
import json

import pytest
from stream_guard_formats.native.cloudevents import CloudEventsDecoder

from stream_guard import DecodeError, Record

HEADERS = (
    ("ce_specversion", b"1.0"),
    ("ce_id", b"17"),
    ("ce_source", b"/shop"),
    ("ce_type", b"agent.event"),
    ("ce_subject", b"order-17"),
    ("ce_time", b"2026-01-05T08:00:00Z"),
)
EVENT = {"kind": "tool_call", "tool": "refund", "args": {"amount": 3}}
ENVELOPE = {"specversion": "1.0", "id": "17", "source": "/shop", "type": "agent.event", "subject": "order-17"}


def test_binary_form_reads_as_the_structured_one() -> None:
    decoder = CloudEventsDecoder()
    binary = decoder.decode(Record(json.dumps(EVENT).encode(), headers=HEADERS))
    structured = ENVELOPE | {"time": "2026-01-05T08:00:00Z", "data": EVENT}
    assert list(binary) == list(decoder.decode(Record(json.dumps(structured).encode())))
    assert binary[0].session_id == "order-17"
    assert binary[0].time == 1_767_600_000.0


def test_data_in_base64_is_read() -> None:
    packed = ENVELOPE | {"data_base64": base64.b64encode(json.dumps(EVENT).encode()).decode()}
    [event] = CloudEventsDecoder().decode(Record(json.dumps(packed).encode()))
    assert event.session_id == "order-17"


def test_same_id_of_another_source_is_another_event() -> None:
    decoder = CloudEventsDecoder()
    [one] = decoder.decode(Record(json.dumps(ENVELOPE | {"data": EVENT}).encode()))
    [other] = decoder.decode(Record(json.dumps(ENVELOPE | {"data": EVENT, "source": "/other"}).encode()))
    assert one.event_id != other.event_id


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"specversion": "0.3"}, "1.0 is read"),
        ({"id": ""}, 'has no "id"'),
        ({"data": [1]}, "this is an array"),
        ({"data": {"kind": "nonsense"}}, "unknown kind 'nonsense'"),
        ({"data_base64": "%"}, "is not base64"),
    ],
)
def test_wrong_envelope_is_refused_with_the_reason(change: dict[str, object], reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        CloudEventsDecoder().decode(Record(json.dumps(ENVELOPE | {"data": EVENT} | change).encode()))
