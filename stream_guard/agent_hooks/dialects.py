"""Which agent asks: by name, and by the marks of its payload where a settings file serves several agents."""

from __future__ import annotations

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from typing import Any

    from stream_guard.agent_hooks.question import AgentDialect

AGENTS = (
    *("claude-code", "codex", "vscode", "kimi", "qwen-code", "droid", "copilot-cli", "cursor", "gemini-cli", "cline"),
    *("windsurf", "amazon-q", "kiro", "goose", "opencode", "amp"),
)

_GEMINI_ONLY = ("BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "BeforeModel", "AfterModel", "PreCompress")
_DROID_MODES = ("off", "spec", "auto-low", "auto-medium", "auto-high")
_QWEN_MODES = ("default", "plan", "auto_edit", "yolo")
# Agents that read another's settings file, and so start a hook that was installed for it.
_SHARING = ("claude-code", "codex", "vscode", "copilot-cli", "cursor", "qwen-code", "droid", "gemini-cli", "kimi")


def dialect_of(agent: str) -> AgentDialect:
    """Return the dialect of an agent that AGENTS lists."""
    from stream_guard.agent_hooks.agents import DIALECTS  # noqa: PLC0415  (a hook that a gate answers needs none)

    return DIALECTS[agent]()


def speaker(data: dict[str, Any], named: str) -> str:
    """Return the agent that sent a payload: the named one, unless the payload bears the marks of another."""
    if named not in _SHARING:
        return named
    return _marked(data, named) or named


def _marked(data: dict[str, Any], named: str) -> str:
    mode, event = data.get("permission_mode"), data.get("hook_event_name")
    stamped = isinstance(data.get("timestamp"), str)
    marks = (
        ("cursor", "cursor_version" in data),
        ("codex", "turn_id" in data and "model" in data),
        ("kimi", data.get("client_type") == "kimi_code_cli"),
        ("copilot-cli", "sessionId" in data and event is None),
        ("droid", mode in _DROID_MODES),
        ("gemini-cli", stamped and event in _GEMINI_ONLY),
        ("qwen-code", stamped and mode in _QWEN_MODES),
    )
    found = next((agent for agent, holds in marks if holds), "")
    if found or not stamped or mode is not None or named not in ("claude-code", "codex"):
        return found
    return _vscode_or_copilot(data, named)


def _vscode_or_copilot(data: dict[str, Any], named: str) -> str:
    """Tell the two apart that read Claude Code's settings and write a time: Copilot gives no ids of calls."""
    if "hook_event_name" not in data:
        return ""
    if "tool_name" in data:
        return "vscode" if "tool_use_id" in data else "copilot-cli"
    return "vscode" if named == "claude-code" else ""
