"""Spans and log records that OpenTelemetry's own instrumentation wrote, read back in both encodings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stream_guard.decoding.reader import EventReader
from stream_guard.judge.model import Event
from stream_guard.ports import Record
from tests.formats.real_spans import ANSWERS, ASKED, CALLS, CONVERSATION, FAILURE, MODEL
from tests.formats.session import Seen, view
from tests.formats.telemetry import Refused
from tests.formats.test_corpus import DECODERS

ROOT = Path(__file__).parents[2]
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
# What is captured, by the variables that say so; the files are read in this order.
MODES = {
    "on spans": {CAPTURE: "span_only"},
    "in log records": {CAPTURE: "event_only", "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT": "true"},
    "nowhere": {},
}
ENCODINGS = {"otlp-json": "json", "otlp-proto": "pb"}


@pytest.fixture(scope="module", params=MODES)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Run the agent in a process of its own: instrumentation changes the client for good."""
    folder = tmp_path_factory.mktemp("telemetry")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    latest = {"OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental"}
    command = [sys.executable, "-m", "tests.formats.real_spans", str(folder)]
    subprocess.run(command, cwd=ROOT, env=plain | latest | MODES[request.param], check=True, timeout=120)
    return request.param, folder


def read(folder: Path, form: str) -> list[Event]:
    """Read the log records first, as they are sent first; an export without any is not sent."""
    refused = Refused()
    reader = EventReader(DECODERS[form](), refused)
    files = [folder / f"{name}.{ENCODINGS[form]}" for name in ("logs", "spans")]
    records = [Record(file.read_bytes(), file.name) for file in files if file.stat().st_size > 2]
    events = [*reader.read_all(records), *reader.finish()]
    assert refused.reasons == []
    return events


def whole() -> list[Seen]:
    calls = [Seen("call", "", call_id, tool, repr(args)) for call_id, tool, args, _ in CALLS]
    results = [
        Seen("result", output or FAILURE, call_id, tool, "", "ok" if output else "error")
        for call_id, tool, _, output in CALLS
    ]
    return [Seen("user", ASKED), Seen("turn", ANSWERS[0]), *calls, *results, Seen("turn", ANSWERS[1])]


def without_content() -> list[Seen]:
    expected = [Seen("turn")]
    for call_id, tool, _, output in CALLS:
        expected += [Seen("call", "", call_id, tool, "{}")]
        expected += [Seen("result", "None", call_id, tool, "", "ok" if output else "error")]
    return [*expected, Seen("turn")]


@pytest.mark.parametrize("form", ENCODINGS)
def test_what_the_agent_did_is_read_back_as_far_as_it_was_captured(written: tuple[str, Path], form: str) -> None:
    captured, folder = written
    events = read(folder, form)
    seen = [one._replace(time=None) for one in view(events)]
    assert seen == (without_content() if captured == "nowhere" else whole())
    assert {event.session_id for event in events} == {CONVERSATION}
    assert all(event.captured == (captured != "nowhere") for event in events)
    times = [event.time for event in events if event.time is not None]
    assert len(times) == len(events)
    assert times == sorted(times)
    assert {event.labels.get("model") for event in events} - {None} == {MODEL}


def test_both_encodings_are_the_same_events(written: tuple[str, Path]) -> None:
    assert read(written[1], "otlp-json") == read(written[1], "otlp-proto")
