"""Where each coding agent keeps its hooks, and how ours stand in that file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

COMMAND: Final = "stream-guard hook"

Entry = Callable[[str, str], dict[str, Any]]
"""Makes the entry of an event: of the event's name and the command that answers it."""


@dataclass(frozen=True, slots=True)
class HooksFile:
    """A JSON file with entries for events; ``path`` is below the project, or below the home folder with ``~/``."""

    path: str
    events: Sequence[str]
    entry: Entry
    frame: Mapping[str, Any] = field(default_factory=dict)  # what the file must have beside the hooks
    note: str = ""  # what a person has to do besides


@dataclass(frozen=True, slots=True)
class WholeFiles:
    """Files that are all ours: their paths and texts."""

    files: Mapping[str, str]
    executable: bool = False
    note: str = ""


def _matched(more: Mapping[str, Any] | None = None, before: Mapping[str, Any] | None = None) -> Entry:
    """Return how Claude Code and those like it write an entry: in a group with a matcher."""

    def entry(event: str, command: str) -> dict[str, Any]:
        waits = dict(before or {}) if event in ("PreToolUse", "BeforeTool") else {}
        hook = {"type": "command", "command": command, **(more or {"timeout": 10}), **waits}
        about_tools = "Tool" in event
        return {**({"matcher": "*"} if about_tools else {}), "hooks": [hook]}

    return entry


def _cursor(event: str, command: str) -> dict[str, Any]:
    shut = {"failClosed": True} if event in ("preToolUse", "beforeMCPExecution", "beforeShellExecution") else {}
    return {"command": command, "timeout": 10, **shut}


def _copilot(event: str, command: str) -> dict[str, Any]:
    return {"type": "command", "bash": f"{command} --event {event}", "timeoutSec": 10}


def _plain(_event: str, command: str) -> dict[str, Any]:
    return {"command": command}


def _plugin(name: str) -> str:
    return (
        (Path(__file__).parent / "plugin_files" / name)
        .read_text(encoding="utf-8")
        .replace("{", "{{")
        .replace("}", "}}")
    )


_CLAUDE: Final = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "SessionEnd")
_SHARED: Final = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SessionEnd")

PLANS: Final[dict[str, HooksFile | WholeFiles]] = {
    "claude-code": HooksFile(".claude/settings.json", _CLAUDE, _matched(before={"onFailure": "block"})),
    "codex": HooksFile(
        ".codex/hooks.json",
        _SHARED,
        _matched(),
        note="Codex runs a hook only after you have reviewed it: start codex here and trust the new hooks.",
    ),
    "cursor": HooksFile(
        ".cursor/hooks.json",
        ("preToolUse", "postToolUse", "postToolUseFailure", "beforeSubmitPrompt", "stop", "sessionEnd"),
        _cursor,
        frame={"version": 1},
    ),
    "gemini-cli": HooksFile(
        ".gemini/settings.json",
        ("BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "SessionEnd"),
        _matched({"timeout": 10000}),
    ),
    "copilot-cli": HooksFile(
        ".github/hooks/stream-guard.json",
        ("preToolUse", "postToolUse", "userPromptSubmitted", "agentStop", "sessionEnd"),
        _copilot,
        frame={"version": 1},
    ),
    "vscode": HooksFile(
        ".github/hooks/stream-guard-vscode.json",
        ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop"),
        lambda _event, command: {"type": "command", "command": command, "timeout": 10},
    ),
    "windsurf": HooksFile(
        ".windsurf/hooks.json",
        (
            *("pre_read_code", "pre_write_code", "pre_run_command", "pre_mcp_tool_use"),
            *("post_write_code", "post_run_command", "post_mcp_tool_use", "pre_user_prompt"),
        ),
        _plain,
    ),
    "qwen-code": HooksFile(".qwen/settings.json", _CLAUDE, _matched({"timeout": 10000})),
    "droid": HooksFile(".factory/hooks.json", _SHARED, _matched()),
    "amazon-q": HooksFile(
        ".amazonq/cli-agents/default.json",
        ("preToolUse", "postToolUse", "userPromptSubmit"),
        lambda _event, command: {"command": command, "timeout_ms": 10000, "cache_ttl_seconds": 0},
        note="Start the agent of this file: q chat --agent default.",
    ),
    "kiro": HooksFile(
        ".kiro/agents/default.json",
        ("preToolUse", "postToolUse", "userPromptSubmit"),
        lambda _event, command: {"command": command, "timeout_ms": 10000, "cache_ttl_seconds": 0},
    ),
    "goose": HooksFile(
        ".agents/plugins/stream-guard/hooks/hooks.json",
        ("PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "SessionEnd"),
        _matched(),
        note='Goose wants a plugin.json beside the folder hooks: {"name": "stream-guard", "version": "1.0.0"}.',
    ),
    "cline": WholeFiles(
        {
            f".clinerules/hooks/{event}": "#!/bin/sh\nexec {command}\n"
            for event in ("PreToolUse", "PostToolUse", "UserPromptSubmit")
        },
        executable=True,
        note="Cline starts these with its setting Enable Hooks.",
    ),
    "opencode": WholeFiles({".opencode/plugins/stream-guard.js": _plugin("opencode.js")}),
    "amp": WholeFiles(
        {"~/.config/amp/plugins/stream-guard.ts": _plugin("amp.ts")},
        note="Headless runs need --plugin-ready-timeout, so that the plugin is loaded before the first call.",
    ),
    "kimi": WholeFiles(
        {},
        note="Add to ~/.kimi-code/config.toml for PreToolUse, PostToolUse, UserPromptSubmit and Stop:\n"
        '[[hooks]]\nevent = "PreToolUse"\ncommand = "stream-guard hook kimi"\ntimeout = 10',
    ),
}
