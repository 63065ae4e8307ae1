"""Cline: an executable file for each event; every answer is an object, and a refusal ends the run."""

from __future__ import annotations

from stream_guard.agent_hooks.question import (
    CALL,
    PROMPT,
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

# The CLI has names of its own for the same events.
_NAMES = {
    "tool_call": "PreToolUse",
    "tool_result": "PostToolUse",
    "prompt_submit": "UserPromptSubmit",
    "session_shutdown": "SessionShutdown",
}
_SILENT = frozenset(
    (
        "TaskStart",
        "TaskResume",
        "TaskCancel",
        "TaskComplete",
        "TaskError",
        "PreCompact",
        "Notification",
        "agent_start",
        "agent_resume",
        "agent_abort",
        "agent_end",
        "agent_error",
    )
)


class Cline(AgentDialect):
    """Cline's extension and CLI. Exit codes stop nothing: what cannot be read is refused in words, too."""

    name = "cline"

    def read(self, data: dict[str, Any], event: str) -> HookQuestion:
        """Return the question of a payload."""
        named = text_of(data, "hookName") or event
        event, session = _NAMES.get(named, named), text_of(data, "taskId")
        if event == "PreToolUse":
            return HookQuestion(event, CALL, session, call=_call(data, "tool_call", "preToolUse"))
        if event == "PostToolUse":
            inner = object_of(data, "tool_result") or object_of(data, "postToolUse")
            failed = bool(inner.get("error")) or inner.get("success") is False
            output = inner.get("output", inner.get("result", inner.get("error")))
            call = _call(data, "tool_result", "postToolUse")
            return result(event, session, call, failed=failed, output=output)
        if event == "UserPromptSubmit":
            said = text_of(object_of(data, "userPromptSubmit"), "prompt") or text_of(data, "prompt")
            return HookQuestion(event, PROMPT, session, text=said)
        if event == "SessionShutdown":
            return happened(event, session, {"kind": "session_end"})
        return other(event, session, _SILENT, data)

    def allow(self, question: HookQuestion) -> HookAnswer:
        """Say that nothing is cancelled."""
        del question
        return HookAnswer({"cancel": False})

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Cancel. It stops the run, since Cline cannot skip one call."""
        del question, ends
        return HookAnswer({"cancel": True, "errorMessage": text})

    def refuse_prompt(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Cancel."""
        return self.deny(question, text, ends=ends)

    def refuse_unread(self, text: str) -> HookAnswer:
        """Cancel: an exit code would let the tool run."""
        return HookAnswer({"cancel": True, "errorMessage": text}, stderr=text)


def _call(data: dict[str, Any], of_cli: str, of_extension: str) -> Call:
    """Return the call: that of the CLI has real types and an id, that of the extension texts."""
    inner = object_of(data, of_cli)
    if inner:
        return Call(text_of(inner, "name"), inner.get("input"), text_of(inner, "id"))
    inner = object_of(data, of_extension)
    return Call(text_of(inner, "toolName"), inner.get("parameters"))
