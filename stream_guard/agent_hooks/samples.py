"""Payloads as agents send them, one for each event that a hook is installed for: for trying a hook out."""

from __future__ import annotations

from typing import Any

from stream_guard.agent_hooks.installing import PLANS, HooksFile

_SESSION = "stream-guard-hook-test"
_COMMAND = {"command": "echo stream-guard"}
_SHELLS = {"gemini-cli": "run_shell_command", "qwen-code": "run_shell_command", "vscode": "run_in_terminal"}


def samples_of(agent: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the events and payloads to play through an agent's hook."""
    plan = PLANS[agent]
    events = (
        plan.events if isinstance(plan, HooksFile) else _PLUGIN_EVENTS.get(agent, ("PreToolUse", "UserPromptSubmit"))
    )
    return [(event, _payload(agent, event)) for event in events]


_PLUGIN_EVENTS = {"opencode": ("tool.execute.before",), "amp": ("tool.call",)}


def _payload(agent: str, event: str) -> dict[str, Any]:
    make = _MAKERS.get(agent, _claude_like)
    return make(agent, event)


def _claude_like(agent: str, event: str) -> dict[str, Any]:
    stamp = {"timestamp": "2026-11-01T00:00:00.000Z"} if agent in ("gemini-cli", "qwen-code", "vscode") else {}
    call = {"tool_name": _SHELLS.get(agent, "Bash"), "tool_input": _COMMAND, "tool_use_id": "t1"}
    done = {"tool_response": "stream-guard", "error": "none"}
    about: dict[str, Any] = {**call, **done} if "Tool" in event else {"prompt": "Hello", "stop_hook_active": True}
    return {"hook_event_name": event, "session_id": _SESSION, "cwd": "/", **stamp, **about}


def _codex(_agent: str, event: str) -> dict[str, Any]:
    common = {"hook_event_name": event, "session_id": _SESSION, "transcript_path": None, "cwd": "/"}
    if event == "SessionEnd":
        return {**common, "reason": "other"}
    call = {"tool_name": "Bash", "tool_input": _COMMAND, "tool_use_id": "t1"}
    about: dict[str, dict[str, Any]] = {
        "PreToolUse": call,
        "PostToolUse": {**call, "tool_response": "stream-guard"},
        "UserPromptSubmit": {"prompt": "Hello"},
        "Stop": {"stop_hook_active": True, "last_assistant_message": None},
    }
    return {**common, "turn_id": "turn1", "model": "demo", "permission_mode": "default", **about[event]}


def _cursor(_agent: str, event: str) -> dict[str, Any]:
    call = {"tool_name": "Shell", "tool_input": _COMMAND, "tool_use_id": "t1", "tool_output": "{}"}
    common = {"conversation_id": _SESSION, "generation_id": "g1", "cursor_version": "2", "hook_event_name": event}
    return {**common, **(call if "Tool" in event else {"prompt": "Hello", "loop_count": 1})}


def _copilot(_agent: str, event: str) -> dict[str, Any]:
    call = {"toolName": "bash", "toolArgs": _COMMAND}
    return {"sessionId": _SESSION, "cwd": "/", **(call if "Tool" in event else {"prompt": "Hello"})}


def _windsurf(_agent: str, event: str) -> dict[str, Any]:
    told = {"command_line": "echo stream-guard", "cwd": "/", "file_path": "/README.md", "user_prompt": "Hello"}
    of_mcp = {"mcp_server_name": "demo", "mcp_tool_name": "echo", "mcp_tool_arguments": {}}
    return {"agent_action_name": event, "trajectory_id": _SESSION, "tool_info": {**told, **of_mcp}}


def _goose(_agent: str, event: str) -> dict[str, Any]:
    call = {"tool_name": "developer__shell", "tool_input": _COMMAND} if "Tool" in event else {"message": "Hello"}
    return {"event": event, "session_id": _SESSION, **call}


def _cline(_agent: str, event: str) -> dict[str, Any]:
    call = {"toolName": "execute_command", "parameters": _COMMAND}
    inner = {"preToolUse": call, "postToolUse": {**call, "success": True}, "userPromptSubmit": {"prompt": "Hello"}}
    return {"clineVersion": "4.1.12", "hookName": event, "taskId": _SESSION, **inner}


def _opencode(_agent: str, event: str) -> dict[str, Any]:
    called = {"tool": "bash", "sessionID": _SESSION, "callID": "t1"}
    return {"hook": event, "input": called, "output": {"args": _COMMAND}}


def _amp(_agent: str, event: str) -> dict[str, Any]:
    return {"event": event, "thread": {"id": _SESSION}, "toolUseID": "t1", "tool": "Bash", "input": _COMMAND}


_MAKERS = {
    "codex": _codex,
    "cursor": _cursor,
    "copilot-cli": _copilot,
    "windsurf": _windsurf,
    "goose": _goose,
    "cline": _cline,
    "opencode": _opencode,
    "amp": _amp,
}
