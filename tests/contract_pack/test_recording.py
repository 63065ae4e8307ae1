"""What was recorded is read back as every other reader reads it."""

from __future__ import annotations

from typing import Any

import pytest
from stream_guard_contract.recording.session_writer import decode_events, encode_events, storable

from stream_guard.model import Event, SessionEnd, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.ports import Record
from tests.contract_pack.answers import registry

HEAD: dict[str, Any] = {"session_id": "s", "event_id": "e", "time": 1.5}


@pytest.mark.parametrize(
    "event",
    [
        UserMessage(**HEAD, text="line\u2028one\r\ntwo", labels={"scenario": "calm"}),
        Turn(**HEAD, request={"messages": [{"role": "user", "content": "hi"}]}, response={"content": [], "n": 1e300}),
        ToolCall(**HEAD, tool="pay", call_id="c", args={"amount": 20}),
        ToolCall(**HEAD, tool="pay", args='{"amount": 20}'),
        ToolCall(**HEAD, tool="pay", args='"{\\"amount\\": 20}"'),
        ToolCall(**HEAD, tool="pay", args="twenty"),
        ToolResult(**HEAD, tool="pay", call_id="c", status="error", output=storable({1: 3, "1": 2}), latency_ms=0),
        SessionEnd(**HEAD),
    ],
)
def test_an_event_is_read_back_as_the_native_decoder_reads_its_line(event: Event) -> None:
    decoder = registry().decoders["native"]()
    line = encode_events([event])
    assert line.count(b"\n") == 1
    assert decode_events(line, decoder, "test") == decoder.decode(Record(value=line, origin="test", line=1))


def test_sessions_are_read_back_whole() -> None:
    events: list[Event] = [
        UserMessage(session_id="s", event_id=f"e{number}", time=float(number), text=f"{number}") for number in range(50)
    ]
    assert decode_events(encode_events(events), registry().decoders["native"](), "test") == events
