"""Every decoder keeps its promise, and the laws find decoders that do not."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stream_guard as sg
from stream_guard import EVENT_KINDS
from stream_guard.registry import build_registry
from stream_guard.settings import PluginSettings
from stream_guard.testing import check_decoder_laws
from stream_guard.testing.laws import JSON_VALUES, check_any_bytes, check_truncated

DECODERS = build_registry(PluginSettings(allow=("formats",))).decoders

FIELDS = {
    "kind": st.sampled_from(EVENT_KINDS),
    "session_id": st.text(min_size=1, max_size=5),
    "event_id": st.text(max_size=5),
    "time": st.none() | st.floats(0, 1e9),
    "tool": st.text(max_size=5),
    "call_id": st.text(max_size=5),
    "args": JSON_VALUES,
    "request": st.none() | st.dictionaries(st.text(), JSON_VALUES, max_size=3),
    "response": st.dictionaries(st.text(), JSON_VALUES, max_size=3),
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
        event[field] = draw(JSON_VALUES)
    value = bytearray(json.dumps(event, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(value)))
        value[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(value)


@given(value=st.binary() | mutated_events())
@settings(max_examples=2 * settings().max_examples)
def test_every_decoder_returns_events_or_raises_decode_error_and_does_it_again(value: bytes) -> None:
    for kind in DECODERS.values():  # all over one set of values: making them costs more than decoding them
        for strict_keys in (True, False):
            check_any_bytes(kind, value, strict_keys=strict_keys)


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_refuses_a_record_of_which_only_the_head_was_read(name: str) -> None:
    check_truncated(DECODERS[name], b"{}")


SAMPLE = b'{"session": "s1", "tool": "refund"}'


class Reader(sg.JsonDecoder):
    """A decoder without a mistake; those below have one each."""

    def read(self, data: sg.Json, record: sg.Record) -> Sequence[sg.Event]:
        if not isinstance(data, dict) or not isinstance(data.get("session"), str) or not data["session"]:
            raise sg.DecodeError("a record has a session")
        return [sg.ToolCall(session_id=data["session"], event_id=self.name_event(record), tool=str(data.get("tool")))]

    def name_event(self, record: sg.Record) -> str:
        return f"{record.origin}:{record.position}"


class Crashing(Reader):
    def read(self, data: sg.Json, record: sg.Record) -> Sequence[sg.Event]:
        return [sg.ToolCall(session_id=data["session"], event_id="1", tool=data["tool"])]


class Naming(Reader):
    def name_event(self, record: sg.Record) -> str:
        return uuid.uuid4().hex


class Nameless(Reader):
    def name_event(self, record: sg.Record) -> str:
        return ""


class Silent(Reader):
    def read(self, data: sg.Json, record: sg.Record) -> Sequence[sg.Event]:
        return []


class Mute(Reader):
    def read(self, data: sg.Json, record: sg.Record) -> Sequence[sg.Event]:
        try:
            return super().read(data, record)
        except sg.DecodeError:
            raise sg.DecodeError("") from None


class Careless(sg.Decoder):
    def decode(self, record: sg.Record) -> Sequence[sg.Event]:
        return [sg.UserMessage(session_id="s", event_id=str(record.position), text=record.value.decode("latin-1"))]


class Counting(Careless):
    count = 0

    def decode(self, record: sg.Record) -> Sequence[sg.Event]:
        record.check_whole()
        self.count += 1
        return [sg.UserMessage(session_id="s", event_id=str(self.count), text="")]


def test_a_decoder_without_a_mistake_keeps_the_laws() -> None:
    check_decoder_laws(Reader, [SAMPLE])


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Crashing, "law of refusal"),
        (Naming, "law of redelivery"),
        (Nameless, "law of ids"),
        (Silent, "law of samples"),
        (Mute, "law of reasons"),
        (Careless, "law of truncation"),
        (Counting, "law of redelivery"),
    ],
)
def test_the_laws_find_the_mistake_of(kind: type[sg.Decoder], law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_decoder_laws(kind, [SAMPLE])
