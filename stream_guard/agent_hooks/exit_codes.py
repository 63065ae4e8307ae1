"""Windsurf, Amazon Q, Kiro and Goose: agents that an exit code stops, or one word."""

from __future__ import annotations

from stream_guard.agent_hooks.question import (
    CALL,
    PROMPT,
    REFUSED,
    STOP,
    AgentDialect,
    Call,
    HookAnswer,
    HookQuestion,
    happened,
    object_of,
    other,
    result,
    text_of,
)

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from typing import Any


class _ByExitCode(AgentDialect):
    """Stopped by exit code 2, with the reason on standard error."""

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Refuse the call."""
        del question, ends
        return HookAnswer(stderr=text, code=REFUSED)


class Windsurf(_ByExitCode):
    """Windsurf, now Devin desktop: an event for each kind of tool, whose names are made of them."""

    name = "windsurf"
    _TOOLS = ("read_code", "write_code", "run_command", "mcp_tool_use")
    _SILENT = frozenset(("post_cascade_response", "post_cascade_response_with_transcript", "post_setup_worktree"))

    def read(self, data: dict[str, Any], event: str) -> HookQuestion:
        """Return the question of a payload."""
        event, session = text_of(data, "agent_action_name") or event, text_of(data, "trajectory_id")
        told = object_of(data, "tool_info")
        phase, _, tool = event.partition("_")
        if tool in self._TOOLS and phase == "pre":
            return HookQuestion(event, CALL, session, call=_windsurf_call(told, tool))
        if tool in self._TOOLS and phase == "post":
            return result(event, session, _windsurf_call(told, tool), failed=False, output=told.get("mcp_result"))
        if event == "pre_user_prompt":
            return HookQuestion(event, PROMPT, session, text=text_of(told, "user_prompt"))
        return other(event, session, self._SILENT, data)

    def refuse_prompt(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Refuse the prompt."""
        return self.deny(question, text, ends=ends)


def _windsurf_call(told: dict[str, Any], tool: str) -> Call:
    if tool == "mcp_tool_use":
        name = f"mcp__{text_of(told, 'mcp_server_name')}__{text_of(told, 'mcp_tool_name')}"
        return Call(name, told.get("mcp_tool_arguments"))
    if tool == "run_command":
        return Call(tool, {"command": text_of(told, "command_line"), "cwd": text_of(told, "cwd")})
    return Call(tool, told)


class AmazonQ(_ByExitCode):
    """Amazon Q Developer CLI and Kiro CLI 2: no session and no ids; only a call can be stopped."""

    name = "amazon-q"
    may_lack_session = True
    stops_prompts = False
    # Kiro of version 3 begins the same names with a capital letter.
    _SILENT = frozenset(
        (
            "agentSpawn",
            "sessionStart",
            "preTaskExec",
            "postTaskExec",
            "postFileCreate",
            "postFileSave",
            "postFileDelete",
            "manual",
        )
    )

    def read(self, data: dict[str, Any], event: str) -> HookQuestion:
        """Return the question of a payload."""
        named, session = text_of(data, "hook_event_name") or event, text_of(data, "session_id")
        event = named[:1].lower() + named[1:]
        if event == "preToolUse":
            return HookQuestion(event, CALL, session, call=_plain_call(data))
        if event == "postToolUse":
            failed = object_of(data, "tool_response").get("success") is False
            return result(event, session, _plain_call(data), failed=failed, output=data.get("tool_response"))
        if event == "userPromptSubmit":
            return HookQuestion(event, PROMPT, session, text=text_of(data, "prompt"))
        if event == "stop":
            return HookQuestion(event, STOP, session)
        return other(event, session, self._SILENT, data)

    def refuse_prompt(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Refuse the prompt, where that is possible."""
        if self.stops_prompts:
            return self.deny(question, text, ends=ends)
        return super().refuse_prompt(question, text, ends=ends)


class Kiro(AmazonQ):
    """Kiro CLI 3 and IDE 1: prompts can be refused."""

    name = "kiro"
    stops_prompts = True


class Goose(AgentDialect):
    """Goose: only PreToolUse is listened to."""

    name = "goose"
    _SILENT = frozenset(
        (
            *("SessionStart", "BeforeReadFile", "AfterFileEdit", "BeforeShellExecution", "AfterShellExecution"),
            *("SubagentStart", "SubagentStop"),
        )
    )

    def read(self, data: dict[str, Any], event: str) -> HookQuestion:
        """Return the question of a payload."""
        event, session = text_of(data, "event") or event, text_of(data, "session_id")
        if event == "PreToolUse":
            return HookQuestion(event, CALL, session, call=_plain_call(data))
        if event in ("PostToolUse", "PostToolUseFailure"):
            failed = event == "PostToolUseFailure"
            return result(event, session, _plain_call(data), failed=failed, output=data.get("tool_output"))
        if event == "UserPromptSubmit":
            return HookQuestion(event, PROMPT, session, text=text_of(data, "message", "matcher_context"))
        if event == "Stop":
            return HookQuestion(event, STOP, session, text=text_of(data, "message"))
        if event == "SessionEnd":
            return happened(event, session, {"kind": "session_end"})
        return other(event, session, self._SILENT, data)

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Refuse the call."""
        del question, ends
        return HookAnswer({"decision": "block", "reason": text})


def _plain_call(data: dict[str, Any]) -> Call:
    return Call(text_of(data, "tool_name"), data.get("tool_input"))
