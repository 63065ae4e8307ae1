"""``convert``: what is written reads back as what was decoded."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from stream_guard.cli.app import app
from stream_guard.commands import INCONCLUSIVE
from stream_guard.judge.model import Event
from stream_guard.ports import Record
from tests.formats.session import view
from tests.formats.test_corpus import DECODERS, DETECTED, RENDERERS, decode


def read_back(file: Path) -> list[Event]:
    decoder = DECODERS["native"]()
    return [event for line in file.read_bytes().splitlines() for event in decoder.decode(Record(line))]


@pytest.mark.parametrize("name", DETECTED)
def test_converted_recording_reads_back_as_the_same_events(name: str, tmp_path: Path) -> None:
    recording, written = tmp_path / "recording.jsonl", tmp_path / "events.jsonl"
    recording.write_bytes(b"".join(RENDERERS[name]()))
    done = CliRunner().invoke(app, ["convert", str(recording), "--output", str(written)])
    assert done.exit_code == 0, done.output
    converted, decoded = read_back(written), decode(name)
    # Answers of Codex wait for their calls, where a decoder alone gives both as they come. Other lines that do not name
    # their session belong to that of their file.
    if name in ("codex-rollout", "kimi", "openhands:typed"):
        assert view(converted) == view(decoded)
    else:
        assert converted == decoded


def test_record_that_cannot_be_read_is_counted_and_the_rest_is_written(tmp_path: Path) -> None:
    recording, written = tmp_path / "recording.jsonl", tmp_path / "events.jsonl"
    recording.write_bytes(b'{"what": "is this"}\n' + b"".join(RENDERERS["tau2"]()))
    done = CliRunner().invoke(
        app, ["convert", str(recording), "-o", str(written), "--dead-letters", str(tmp_path / "d")]
    )
    assert done.exit_code == INCONCLUSIVE
    assert "1 could not be read" in done.output
    assert "no format is known by this shape" in (tmp_path / "d").read_text()
    assert read_back(written) == decode("tau2")


def test_output_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    recording = tmp_path / "recording.jsonl"
    recording.write_bytes(b"")
    done = CliRunner().invoke(app, ["convert", str(recording), "-o", str(tmp_path / "no" / "file")])
    assert done.exit_code != 0
    assert "cannot be written" in str(done.exception)
