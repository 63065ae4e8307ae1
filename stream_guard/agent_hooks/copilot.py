"""GitHub Copilot CLI and its cloud agent: payloads in two spellings, answers in one, flat."""

from __future__ import annotations

from stream_guard.agent_hooks.question import (
    CALL,
    PROMPT,
    STOP,
    AgentDialect,
    Call,
    HookAnswer,
    HookQuestion,
    happened,
    other,
    result,
    text_of,
)

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from typing import Any

# An event has two names; the second is the one of Claude Code.
_NAMES = {
    "PreToolUse": "preToolUse",
    "PermissionRequest": "permissionRequest",
    "PostToolUse": "postToolUse",
    "PostToolUseFailure": "postToolUseFailure",
    "UserPromptSubmit": "userPromptSubmitted",
    "Stop": "agentStop",
    "SubagentStop": "subagentStop",
    "SessionEnd": "sessionEnd",
}
_SILENT = frozenset(
    (
        "sessionStart",
        "SessionStart",
        "userPromptTransformed",
        "UserPromptTransformed",
        "subagentStart",
        "SubagentStart",
        "errorOccurred",
        "ErrorOccurred",
        "preCompact",
        "PreCompact",
        "notification",
        "Notification",
    )
)
# Payloads in camelCase do not say which event they are of. The first key that is there tells.
_BY_KEY = (
    ("toolResult", "postToolUse"),
    ("error", "errorOccurred"),
    ("toolName", "preToolUse"),
    ("prompt", "userPromptSubmitted"),
    ("stopReason", "agentStop"),
    ("source", "sessionStart"),
    ("reason", "sessionEnd"),
)


class Copilot(AgentDialect):
    """Copilot CLI: a refusal is flat, for whichever spelling it was asked in."""

    name = "copilot-cli"

    def read(self, data: dict[str, Any], event: str) -> HookQuestion:
        """Return the question of a payload."""
        named = text_of(data, "hook_event_name") or event or next((name for key, name in _BY_KEY if key in data), "")
        event, session = _NAMES.get(named, named), text_of(data, "sessionId", "session_id")
        if event in ("preToolUse", "permissionRequest"):
            return HookQuestion(event, CALL, session, call=_call(data))
        if event in ("postToolUse", "postToolUseFailure"):
            output = next(
                (data[name] for name in ("toolResult", "tool_result", "tool_response", "error") if name in data), None
            )
            kind = output.get("resultType") if isinstance(output, dict) else None
            failed = event == "postToolUseFailure" or kind in ("failure", "denied", "error")
            return result(event, session, _call(data), failed=failed, output=output)
        if event == "userPromptSubmitted":
            return HookQuestion(event, PROMPT, session, text=text_of(data, "prompt"))
        if event in ("agentStop", "subagentStop"):
            return HookQuestion(event, STOP, session, asked_again=data.get("stop_hook_active") is True)
        if event == "sessionEnd":
            return happened(event, session, {"kind": "session_end"})
        return other(event, session, _SILENT, data)

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Deny the call; there is no way to end the session."""
        del ends
        if question.event == "permissionRequest":
            return HookAnswer({"behavior": "deny", "message": text})
        return HookAnswer({"permissionDecision": "deny", "permissionDecisionReason": text})

    def may_modify(self, question: HookQuestion) -> bool:
        """Whether the arguments of the call can be replaced: before the tool, not where a permission is asked for."""
        return question.event == "preToolUse"

    def modify(self, question: HookQuestion, args: dict[str, Any]) -> HookAnswer:
        """Replace the arguments."""
        del question
        return HookAnswer({"permissionDecision": "allow", "modifiedArgs": args})

    def ask(self, question: HookQuestion, text: str) -> HookAnswer:
        """Open the agent's own prompt; that of a permissionRequest is open already."""
        if question.event == "permissionRequest":
            return HookAnswer()
        return HookAnswer({"permissionDecision": "ask", "permissionDecisionReason": text})

    def hold(self, question: HookQuestion, text: str) -> HookAnswer:
        """Send the agent back to work."""
        del question
        return HookAnswer({"decision": "block", "reason": text})


def _call(data: dict[str, Any]) -> Call:
    tool = text_of(data, "toolName", "tool_name")
    args = data["toolArgs"] if "toolArgs" in data else data.get("tool_input")
    return Call(tool, args, text_of(data, "toolCallId", "tool_use_id"))
