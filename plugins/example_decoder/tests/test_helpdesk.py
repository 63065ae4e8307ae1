from __future__ import annotations

import pytest
from stream_guard_example_decoder import HelpdeskDecoder

from stream_guard import DecodeError, Record, ToolCall, Turn, UserMessage
from stream_guard.testing import check_decoder_laws

LINES = (
    b'{"id": "1", "ticket": "T-7", "at": 1769860800, "who": "customer", "text": "My parcel is gone."}',
    b'{"id": "2", "ticket": "T-7", "at": 1769860801, "who": "bot", "text": "I am sorry, here is your money."}',
    b'{"id": "3", "ticket": "T-7", "at": 1769860802, "who": "tool", "tool": "refund", "input": {"amount": 20}}',
)


def test_each_line_becomes_one_event_of_its_ticket() -> None:
    events = [event for line in LINES for event in HelpdeskDecoder().decode(Record(line))]
    assert [type(event) for event in events] == [UserMessage, Turn, ToolCall]
    assert {event.session_id for event in events} == {"T-7"}


def test_a_line_without_a_ticket_is_refused_by_name() -> None:
    with pytest.raises(DecodeError, match="ticket"):
        HelpdeskDecoder().decode(Record(b'{"id": "1", "who": "bot"}'))


def test_decoder_keeps_the_laws() -> None:
    check_decoder_laws(HelpdeskDecoder, LINES)
