"""Hooks in agents' settings: written beside what is there, taken out without a trace, never over what is not ours."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stream_guard.agent_hooks.dialects import AGENTS
from stream_guard.agent_hooks.installing import (
    PLANS,
    Change,
    HookInstallError,
    HooksFile,
    WholeFiles,
    compare,
    compile_hook,
    plan,
    remember,
)
from stream_guard.cli.app import app

JSON = [agent for agent in AGENTS if isinstance(PLANS[agent], HooksFile)]
FILES = [agent for agent in AGENTS if isinstance(PLANS[agent], WholeFiles) and PLANS[agent].files]  # type: ignore[union-attr]


def apply(agent: str, folder: Path, **options: Any) -> list[Path]:
    changes = plan(agent, folder, folder / "home", **options)
    for change in changes:
        change.write()
    return [change.path for change in changes]


def content(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("agent", [*JSON, *FILES])
def test_hooks_are_installed_once_and_leave_nothing_when_they_are_taken_out(agent: str, tmp_path: Path) -> None:
    assert apply(agent, tmp_path)
    installed = content(tmp_path)
    assert f"stream-guard hook {agent}" in str(installed) or "stream_guard" in str(installed)
    assert apply(agent, tmp_path) == []
    apply(agent, tmp_path, undo=True)
    assert content(tmp_path) == {}


@pytest.mark.parametrize("agent", JSON)
def test_what_else_is_in_the_settings_stays(agent: str, tmp_path: Path) -> None:
    place = PLANS[agent]
    assert isinstance(place, HooksFile)
    path = tmp_path / place.path
    path.parent.mkdir(parents=True)
    event = place.events[0]
    mine = (
        {"hooks": [{"type": "command", "command": "mine"}]} if "hooks" in place.entry("x", "y") else {"command": "mine"}
    )
    before = {**place.frame, "theme": "dark", "hooks": {event: [mine], "Mine": [mine]}}
    path.write_text(json.dumps(before))
    apply(agent, tmp_path, flags="--on-error open")
    after = json.loads(path.read_text())
    assert (after["theme"], after["hooks"]["Mine"], after["hooks"][event][0]) == ("dark", [mine], mine)
    assert f"stream-guard hook {agent} --on-error open" in json.dumps(after["hooks"][event][1])
    apply(agent, tmp_path, undo=True)
    assert json.loads(path.read_text()) == before


def test_other_flags_replace_the_hook_and_do_not_add_a_second(tmp_path: Path) -> None:
    apply("claude-code", tmp_path)
    apply("claude-code", tmp_path, flags="--on-error open")
    [entry] = json.loads((tmp_path / ".claude/settings.json").read_text())["hooks"]["PreToolUse"]
    assert [hook["command"] for hook in entry["hooks"]] == ["stream-guard hook claude-code --on-error open"]


def test_hooks_of_cline_can_be_started(tmp_path: Path) -> None:
    for path in apply("cline", tmp_path):
        assert os.access(path, os.X_OK)


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": []}', '{"hooks": {"Stop": 1}}'])
def test_settings_that_cannot_be_understood_are_left_alone(text: str, tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(HookInstallError, match=r"settings\.json"):
        plan("claude-code", tmp_path, tmp_path)
    assert path.read_text() == text


def test_a_file_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / ".clinerules" / "hooks" / "PreToolUse"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\nexec mine\n")
    with pytest.raises(HookInstallError, match="is not ours"):
        plan("cline", tmp_path, tmp_path)


def test_the_command_shows_the_change_and_asks(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    shown = CliRunner().invoke(app, ["hook", "install", "droid"], input="n\n")
    assert (shown.exit_code, '+            "command": "stream-guard hook droid"' in shown.output) == (1, True)
    assert content(tmp_path) == {}
    assert CliRunner().invoke(app, ["hook", "install", "droid", "--yes"]).exit_code == 0
    assert list(content(tmp_path)) == [str(tmp_path / ".factory" / "hooks.json")]
    unknown = CliRunner().invoke(app, ["hook", "install", "driod"])
    assert (unknown.exit_code, "droid" in unknown.output) == (2, True)


def test_a_change_of_what_was_installed_shows_and_what_was_taken_out_is_forgotten(tmp_path: Path) -> None:
    state = tmp_path / "state" / "installed.json"
    for agent in ("codex", "gemini-cli"):
        changes = plan(agent, tmp_path, tmp_path)
        for change in changes:
            change.write()
        remember(changes, state)
    codex, gemini = tmp_path / ".codex/hooks.json", tmp_path / ".gemini/settings.json"
    assert compare(state) == {str(codex): "as installed", str(gemini): "as installed"}
    codex.write_text(codex.read_text().replace("stream-guard", "true"))
    gemini.unlink()
    assert compare(state) == {str(codex): "changed since it was installed", str(gemini): "gone"}
    remember([Change(codex, "", None)], state)
    assert compare(state) == {str(gemini): "gone"}


def test_what_a_hook_imports_is_compiled_when_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.pycache_prefix", str(tmp_path))
    compile_hook()
    compiled = {path.name.partition(".")[0] for path in tmp_path.rglob("*.pyc")}
    assert {"process", "command", "client", "asking", "agents"} <= compiled
