"""What was recorded is read back as every other reader reads it."""

from __future__ import annotations

from typing import Any

import pytest
from stream_guard_contract.recording import decode_events, encode_events, storable

from stream_guard.judge.model import Event, SessionEnd, ToolCall, ToolResult, Turn, UserMessage
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


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (SessionEnd(session_id="s"), b'{"kind":"session_end","session_id":"s"}\n'),
        (
            SessionEnd(session_id="s", time=0.0, reason="idle"),
            b'{"kind":"session_end","session_id":"s","time":0.0,"reason":"idle"}\n',
        ),
        (UserMessage(session_id="s", labels={}, agent_path=()), b'{"kind":"user_message","session_id":"s"}\n'),
        (
            ToolCall(session_id="s", tool="", captured=False),
            b'{"kind":"tool_call","session_id":"s","captured":false,"tool":""}\n',
        ),
        (
            ToolResult(session_id="s", status="ok", output=False),
            b'{"kind":"tool_result","session_id":"s","output":false}\n',
        ),
        (Turn(session_id="s", index=-1, response={"n": 1}), b'{"kind":"turn","session_id":"s","response":{"n":1}}\n'),
    ],
)
def test_what_has_its_default_value_is_not_written(event: Event, line: bytes) -> None:
    assert encode_events([event]) == line


def test_sessions_are_read_back_whole() -> None:
    events: list[Event] = [
        UserMessage(session_id="s", event_id=f"e{number}", time=float(number), text=f"{number}") for number in range(50)
    ]
    assert decode_events(encode_events(events), registry().decoders["native"](), "test") == events
