"""The formats on the command line: listed in the help, completed by the shell."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from stream_guard.cli.app import app
from stream_guard.commands import FORMATS, INCONCLUSIVE, complete_format
from stream_guard.registry import build_registry
from stream_guard.settings import PluginSettings
from tests.formats.exports import RENDERERS


def test_the_help_lists_every_format_of_the_project() -> None:
    assert set(build_registry(PluginSettings(allow=("formats",))).decoders) == set(FORMATS)
    shown = CliRunner().invoke(app, ["check", "--help"], env={"COLUMNS": "300", "NO_COLOR": "1"}).output
    assert [name for name in FORMATS if name not in shown] == []


def test_the_shell_completes_a_format() -> None:
    assert complete_format("open") == ["openai-chat", "openai-responses", "openhands", "openinference"]
    assert complete_format("no such") == []


def test_the_shell_completes_a_format_that_another_package_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    known = metadata.entry_points(group="stream_guard")
    theirs = metadata.EntryPoint(name="theirs", value="their_package", group="stream_guard")
    monkeypatch.setattr(metadata, "entry_points", lambda group: (*known, theirs))
    registry = SimpleNamespace(decoders={"native": object, "their-format": object})
    monkeypatch.setattr("stream_guard.registry.build_registry", lambda: registry)
    assert complete_format("the") == ["their-format"]


def test_a_folder_of_mixed_files_is_checked_and_the_summary_says_what_was_read_and_what_was_missing(
    tmp_path: Path,
) -> None:
    for name in ("inspect", "langsmith", "codex-rollout"):
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join(RENDERERS[name]()))
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    (tmp_path / "talk.json").write_text(json.dumps(talk, indent=2))
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules:\n  - {id: budget, kind: max_total_tokens, params: {n: 1000000}}\n")
    command = [sys.executable, "-m", "stream_guard.cli", "check", str(tmp_path), "--policy", str(policy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == INCONCLUSIVE, done.stderr
    for name, confidence in (("inspect", "1.00"), ("langsmith", "0.95"), ("codex-rollout", "1.00")):
        assert f"{name}.jsonl: read as {name} (confidence {confidence})" in done.stderr
    assert "talk.json: no tool call in any of 1 records, read as openai-chat" in done.stderr
    assert "x budget: without a usage with input and output tokens" in done.stderr
