"""Gemini CLI: ``decision`` at the top, and no ids of calls."""

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

_SILENT = frozenset(("BeforeModel", "AfterModel", "BeforeToolSelection", "SessionStart", "PreCompress", "Notification"))


class GeminiCli(AgentDialect):
    """Gemini CLI of version 0.56: it can ask, and ``continue: false`` ends the loop."""

    name = "gemini-cli"

    def read(self, data: dict[str, Any], event: str) -> HookQuestion:
        """Return the question of a payload."""
        event, session = text_of(data, "hook_event_name") or event, text_of(data, "session_id")
        if event == "BeforeTool":
            return HookQuestion(event, CALL, session, call=_call(data))
        if event == "AfterTool":
            said = data.get("tool_response")
            failed = isinstance(said, dict) and bool(said.get("error"))
            return result(event, session, _call(data), failed=failed, output=said)
        if event == "BeforeAgent":
            return HookQuestion(event, PROMPT, session, text=text_of(data, "prompt"))
        if event == "AfterAgent":
            said_last, again = text_of(data, "prompt_response"), data.get("stop_hook_active") is True
            return HookQuestion(event, STOP, session, text=said_last, asked_again=again)
        if event == "SessionEnd":
            return happened(event, session, {"kind": "session_end"})
        return other(event, session, _SILENT, data)

    def warn(self, answer: HookAnswer, text: str) -> HookAnswer:
        """Show the user a message."""
        return HookAnswer({**(answer.said or {}), "systemMessage": text})

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Deny the call or the prompt, or send the agent back to work; with ``ends`` the whole loop is over."""
        del question
        more = {"continue": False, "stopReason": text} if ends else {}
        return HookAnswer({"decision": "deny", "reason": text, **more})

    def ask(self, question: HookQuestion, text: str) -> HookAnswer:
        """Open the agent's own prompt. It shows the message, not the reason."""
        del question
        return HookAnswer({"decision": "ask", "reason": text, "systemMessage": text})

    def refuse_prompt(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Drop the turn and the message."""
        return self.deny(question, text, ends=ends)

    def hold(self, question: HookQuestion, text: str) -> HookAnswer:
        """Send the agent back to work."""
        return self.deny(question, text)


def _call(data: dict[str, Any]) -> Call:
    return Call(text_of(data, "tool_name"), data.get("tool_input"))
