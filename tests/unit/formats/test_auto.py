"""The format ``auto``: decoders of plugins join it, and none of them stops the others."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Self

import pytest

import stream_guard as sg
from stream_guard.registry import Registry, build_registry
from stream_guard.settings import Settings

TICKET = {"ticket": "T-1", "text": "hello"}
CHAT = {"session_id": "s", "messages": [{"role": "user", "content": "hello"}]}


class TicketDecoder(sg.JsonDecoder):
    """The decoder of a stranger."""

    @classmethod
    def recognises(cls, data: sg.Json) -> float:
        return 0.9 if isinstance(data, dict) and "ticket" in data else 0.0

    def read(self, data: sg.Json, record: sg.Record) -> Sequence[sg.Event]:
        return [sg.UserMessage(session_id=data["ticket"], event_id=str(record.position), text=data["text"])]


class FailingDecoder(TicketDecoder):
    @classmethod
    def recognises(cls, data: sg.Json) -> float:
        raise KeyError("ticket")


class GreedyDecoder(TicketDecoder):
    """Claims every record, with whatever confidence is asked for."""

    confidence: Any = 1.0

    @classmethod
    def recognises(cls, data: sg.Json) -> float:
        return cls.confidence  # type: ignore[no-any-return]

    def read(self, data: sg.Json, record: sg.Record) -> Sequence[sg.Event]:
        return [sg.UserMessage(session_id="greedy", event_id="1", text="")]


class UnsetDecoder(TicketDecoder):
    @classmethod
    def configure(cls, settings: Any) -> Self:
        raise sg.SettingsError("tickets.address is not set")


def with_decoders(**decoders: type[sg.Decoder]) -> Registry:
    @sg.hookimpl
    def stream_guard_decoders() -> dict[str, type[sg.Decoder]]:
        return decoders

    return build_registry(extra=[SimpleNamespace(__name__="stranger", stream_guard_decoders=stream_guard_decoders)])


def auto(**decoders: type[sg.Decoder]) -> Any:
    registry = with_decoders(**decoders)
    return registry.decoders["auto"].configure_among(Settings(), registry.decoders)


def decode(decoder: sg.Decoder, data: sg.Json) -> Sequence[sg.Event]:
    return decoder.decode(sg.Record(json.dumps(data).encode(), "file"))


def test_a_decoder_that_a_plugin_registers_is_found() -> None:
    decoder = auto(ticket=TicketDecoder)
    assert [event.session_id for event in decode(decoder, TICKET)] == ["T-1"]
    assert [event.session_id for event in decode(decoder, [TICKET, CHAT])] == ["T-1", "s"]
    assert decoder.detected == {"ticket": 0.9, "openai-chat": 0.5}


def test_a_record_that_no_decoder_recognises_names_all_that_were_asked() -> None:
    with pytest.raises(sg.DecodeError, match=r"no format is known by this shape.*tau2, ticket with --from-format"):
        decode(auto(ticket=TicketDecoder), {"text": "hello"})


def test_a_plugin_whose_recognition_fails_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    decoder = auto(failing=FailingDecoder, ticket=TicketDecoder)
    assert [decode(decoder, TICKET)[0].session_id for _ in range(3)] == ["T-1"] * 3
    assert sum("failing" in message for message in caplog.messages) == 1


@pytest.mark.parametrize("confidence", [None, "sure", float("nan"), -1.0, 0.4])
def test_a_confidence_that_is_none_or_low_counts_for_nothing(confidence: Any) -> None:
    kind = type("OddDecoder", (GreedyDecoder,), {"confidence": confidence})
    assert decode(auto(odd=kind), CHAT)[0].session_id == "s"


def test_of_equal_confidences_the_built_in_format_counts_and_then_the_first_name() -> None:
    native = {"kind": "user_message", "session_id": "n", "event_id": "1", "text": "hello"}
    sure = type("SureDecoder", (GreedyDecoder,), {"confidence": 7.0})  # counts as 1
    decoder = auto(a=sure)
    assert decode(decoder, native)[0].session_id == "n"
    assert decode(decoder, CHAT)[0].session_id == "greedy"
    assert decoder.detected == {"native": 1.0, "a": 1.0}
    equal = type("EqualDecoder", (GreedyDecoder,), {"confidence": 0.9})
    assert decode(auto(z=equal, ticket=TicketDecoder), TICKET)[0].session_id == "T-1"
    assert decode(auto(a=equal, ticket=TicketDecoder), TICKET)[0].session_id == "greedy"


def test_a_plugin_that_lacks_a_setting_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        decoder = auto(unset=UnsetDecoder)
    assert "auto reads no records of the format unset: tickets.address is not set" in caplog.text
    assert decode(decoder, CHAT)[0].session_id == "s"


def test_strict_keys_reach_the_decoders_of_plugins() -> None:
    registry = with_decoders(ticket=TicketDecoder)
    twice = sg.Record(b'{"ticket": "T-1", "ticket": "T-2", "text": "hello"}', "file")
    with pytest.raises(sg.DecodeError, match="duplicate key"):
        registry.decoders["auto"].configure_among(Settings(), registry.decoders).decode(twice)
    lenient = Settings.model_validate({"decode": {"strict_keys": False}})
    decoder = registry.decoders["auto"].configure_among(lenient, registry.decoders)
    assert decoder.decode(twice)[0].session_id == "T-2"


def test_the_native_format_names_a_plugin_whose_record_it_was_given() -> None:
    registry = with_decoders(ticket=TicketDecoder)
    decoder = registry.decoders["native"].configure_among(Settings(), registry.decoders)
    with pytest.raises(sg.DecodeError, match=r"--from-format auto: looks like ticket 0\.90"):
        decode(decoder, TICKET)


def test_a_folder_of_many_files_is_summed_up(caplog: pytest.LogCaptureFixture) -> None:
    decoder = auto()
    for number in range(9):
        decoder.decode(sg.Record(json.dumps(CHAT).encode(), f"chat-{number}.json", 0, 1))
    decoder.decode(sg.Record(b'{"agentType": "Explore"}', "agent-1.meta.json", 0, 1))
    decoder.finish()
    assert sum("read as openai-chat (confidence" in message for message in caplog.messages) == 5
    assert "4 more inputs read as openai-chat" in caplog.text
    assert sum("no tool call in any" in message for message in caplog.messages) == 5
    assert "4 more inputs have no tool call" in caplog.text
    assert "agent-1.meta.json: no tool call" not in caplog.text
