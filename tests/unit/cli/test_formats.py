"""The formats on the command line: listed in the help, completed by the shell."""

from __future__ import annotations

from typer.testing import CliRunner

from stream_guard.cli.app import app
from stream_guard.commands import FORMATS, complete_format
from stream_guard.registry import build_registry
from stream_guard.settings import PluginSettings


def test_the_help_lists_every_format_of_the_project() -> None:
    assert set(build_registry(PluginSettings(allow=("formats",))).decoders) == set(FORMATS)
    shown = CliRunner().invoke(app, ["check", "--help"], env={"COLUMNS": "300", "NO_COLOR": "1"}).output
    assert [name for name in FORMATS if name not in shown] == []


def test_the_shell_completes_a_format() -> None:
    assert complete_format("open") == ["openai-chat", "openai-responses", "openinference"]
    assert complete_format("no such") == []
