"""What commands say at their end, and of a history that is not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stream_guard.cli.app import app

POLICY = """\
rules:
  - {id: tried, kind: no_call, params: {tool: x}, mode: shadow}
  - {id: forced, kind: no_call, params: {tool: y}}
"""


def calls(*times: int, session: str = "s") -> str:
    lines = ({"kind": "tool_call", "session_id": session, "tool": tool, "time": at} for at in times for tool in "xy")
    return "".join(json.dumps(line) + "\n" for line in lines)


def said(command: str, folder: Path, events: str, *more: str) -> str:
    (folder / "p.yaml").write_text(POLICY)
    (folder / "e.jsonl").write_text(events)
    given = [command, str(folder / "e.jsonl"), "-p", str(folder / "p.yaml"), *more]
    return CliRunner().invoke(app, given + (["--no-serve"] if command == "run" else [])).stderr


@pytest.mark.parametrize("command", ["check", "replay", "run"])
def test_findings_of_rules_in_shadow_mode_are_shown_as_such(command: str, tmp_path: Path) -> None:
    lines = said(command, tmp_path, calls(1000, 1001)).splitlines()
    assert "2 findings in shadow mode, not sent: tried (2)" in lines


@pytest.mark.parametrize("command", ["check", "replay"])
def test_a_recorded_session_that_silence_cuts_is_reported(command: str, tmp_path: Path) -> None:
    assert "1 session was cut by sessions.idle (1800 s)" in said(command, tmp_path, calls(1000, 9000))
    assert "2 sessions were cut" in said(command, tmp_path, calls(1000, 9000) + calls(1000, 9000, session="t"))
    assert "cut by" not in said(command, tmp_path, calls(1000, 2000) + calls(90000, session="t"))


def test_machines_get_it_as_one_line_of_json(tmp_path: Path) -> None:
    lines = said("check", tmp_path, calls(1000, 9000), "--format", "json").splitlines()
    (line,) = [line for line in lines if line.startswith("{")]
    assert json.loads(line) == {"shadow_findings": {"tried": 2}, "cut_sessions": 1}


@pytest.mark.parametrize("command", ["alerts list", "audit verify", "audit show", "incidents list", "reviews list"])
def test_a_history_that_is_not_there_is_an_error_and_is_not_made(command: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*command.split(), "--history", str(tmp_path / "none.db")])
    assert result.exit_code != 0
    assert "there is no history at" in str(result.exception)
    assert not list(tmp_path.iterdir())
