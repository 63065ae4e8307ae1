"""One logical session in every format: the same events, but for the differences that are listed."""

from __future__ import annotations

import pytest

from stream_guard.judge.model import Event
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.settings import PluginSettings
from tests.formats.agent_files import RENDERERS as AGENT_FILES
from tests.formats.differences import DIFFERENCES, apply_differences
from tests.formats.exports import RENDERERS as EXPORTS
from tests.formats.renderings import RENDERERS as TRANSCRIPTS
from tests.formats.renderings import text_protocol
from tests.formats.session import Seen, expected, view
from tests.formats.telemetry import (
    langfuse,
    openinference,
    otlp_current,
    otlp_events,
    otlp_indexed,
    otlp_openinference,
    otlp_proto,
)

# Behind the colon: which of the ways to write one format.
RENDERERS = (
    TRANSCRIPTS
    | EXPORTS
    | AGENT_FILES
    | {
        "langfuse": langfuse,
        "openinference": openinference,
        "otlp-json": otlp_current,
        "otlp-json:indexed": otlp_indexed,
        "otlp-json:events": otlp_events,
        "otlp-json:openinference": otlp_openinference,
    }
)
DETECTED = tuple(RENDERERS)  # what follows, auto cannot tell from others
RENDERERS["text-protocol"] = text_protocol
TEXTS = tuple(RENDERERS)  # one record to a line; what follows has bytes that would end lines
RENDERERS["otlp-proto"] = otlp_proto
RENDERERS["otlp"] = otlp_proto
RENDERERS["otlp:json"] = otlp_current
DECODERS = build_registry(PluginSettings(allow=("formats",))).decoders


def decode_as(form: str, name: str) -> list[Event]:
    decoder = DECODERS[form]()
    position = 0
    events: list[Event] = []
    for value in RENDERERS[name]():
        events += decoder.decode(Record(value, "corpus", position))
        position += len(value)
    return events


def decode(name: str) -> list[Event]:
    return decode_as(name.partition(":")[0], name)


@pytest.mark.parametrize("name", RENDERERS)
def test_rendering_decodes_to_the_session_but_for_the_listed_differences(name: str) -> None:
    assert view(decode(name)) == apply_differences(name.partition(":")[0], expected())


@pytest.mark.parametrize("name", RENDERERS)
def test_event_ids_are_unique_and_the_same_when_read_again(name: str) -> None:
    ids = [event.event_id for event in decode(name)]
    assert len(set(ids)) == len(ids)
    assert [event.event_id for event in decode(name)] == ids
    assert len({event.session_id for event in decode(name)}) == 1


@pytest.mark.parametrize("name", DETECTED)
def test_auto_reads_a_rendering_as_its_own_decoder_does(name: str) -> None:
    assert decode_as("auto", name) == decode(name)


def test_every_decoder_has_a_rendering() -> None:
    assert set(DECODERS) - {"auto"} == {name.partition(":")[0] for name in RENDERERS}


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda one: one.what)
def test_listed_difference_is_one(difference: object) -> None:
    listed = next(one for one in DIFFERENCES if one is difference)
    assert listed.change(expected()) != expected()


def test_view_of_the_session_has_all_it_should() -> None:
    assert {one.status for one in expected() if one.sort == "result"} == {"ok", "error", "blocked"}
    assert Seen("turn", "Let me look at it.", time=expected()[1].time) in expected()
