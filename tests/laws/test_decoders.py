"""Every decoder keeps its promise: events or DecodeError, whatever the bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard import EVENT_KINDS, DecodeError, Record
from stream_guard.ports import Decoder
from stream_guard.registry import build_registry
from stream_guard.settings import PluginSettings

DECODERS = build_registry(PluginSettings(allow=("formats",))).decoders

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)
FIELDS = {
    "kind": st.sampled_from(EVENT_KINDS),
    "session_id": st.text(min_size=1, max_size=5),
    "event_id": st.text(max_size=5),
    "time": st.none() | st.floats(0, 1e9),
    "tool": st.text(max_size=5),
    "call_id": st.text(max_size=5),
    "args": json_values,
    "request": st.none() | st.dictionaries(st.text(), json_values, max_size=3),
    "response": st.dictionaries(st.text(), json_values, max_size=3),
    "labels": st.dictionaries(st.text(), st.text(), max_size=3),
    "action": st.sampled_from(["allow", "pause", "block", "terminate_session"]),
    "text": st.text(),
    "status": st.sampled_from(["ok", "error", "blocked"]),
}


@st.composite
def mutated_events(draw: Callable[..., Any]) -> bytes:
    """Events as they should be, with fields that should not be, and with bytes hit by something."""
    event = draw(st.fixed_dictionaries({}, optional=FIELDS))
    for field in draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=2)):
        event[field] = draw(json_values)
    value = bytearray(json.dumps(event, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(value)))
        value[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(value)


def decode(decoder: Decoder, value: bytes) -> object:
    try:
        return list(decoder.decode(Record(value, "file", 0, 1)))
    except DecodeError as error:
        return str(error)


@pytest.mark.parametrize("strict_keys", [True, False])
@pytest.mark.parametrize("name", DECODERS)
@given(value=st.binary() | mutated_events())
def test_a_decoder_returns_events_or_raises_decode_error_and_does_it_again(
    name: str, value: bytes, *, strict_keys: bool
) -> None:
    decoder = DECODERS[name](strict_keys=strict_keys)
    first = decode(decoder, value)
    assert first != "", "a refusal needs a reason"
    assert decode(decoder, value) == first
    if isinstance(first, list):
        for event in first:
            assert event.session_id
            assert event.event_id
            assert event.time is None or event.time >= 0


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_refuses_a_record_of_which_only_the_head_was_read(name: str) -> None:
    with pytest.raises(DecodeError):
        DECODERS[name]().decode(Record(b"{}", truncated=10**8))
