"""Claude Code, and the agents that took over its contract: one JSON object in, one out, or nothing.

The contracts are those of Claude Code 2.1, Codex 0.150, VS Code of August 2026, Kimi Code 0.38, Qwen Code 0.22 and
Factory Droid of July 2026. They differ in what an answer may hold, and an answer with one key too many is thrown away.
"""

from __future__ import annotations

from stream_guard.agent_hooks.question import (
    CALL,
    HAPPENED,
    PROMPT,
    STOP,
    AgentDialect,
    Call,
    HookAnswer,
    HookQuestion,
    happened,
    other,
    text_of,
)

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from typing import Any

_STOPS = ("Stop", "SubagentStop")
# What became of a call; the last one was refused by the user, or by the agent's own rules.
_RESULTS = {"PostToolUse": "ok", "PostToolUseFailure": "error", "PermissionDenied": "blocked"}


class ClaudeCode(AgentDialect):
    """Claude Code: it can ask its user, and ``continue: false`` stops it."""

    name = "claude-code"
    message = "systemMessage"  # what the user is shown
    asks = True  # permissionDecision may be "ask"
    ends = True  # "continue": false may stand beside a denial
    modifies = True  # "updatedInput" counts, and replaces the whole input
    judged: tuple[str, ...] = ("PreToolUse", "PermissionRequest")  # events that a tool call waits for
    silent = frozenset(
        (
            "SessionStart",
            "Setup",
            "UserPromptExpansion",
            "PostToolBatch",
            "Notification",
            "MessageDisplay",
            "SubagentStart",
            "TaskCreated",
            "TaskCompleted",
            "StopFailure",
            "TeammateIdle",
            "InstructionsLoaded",
            "ConfigChange",
            "CwdChanged",
            "DirectoryAdded",
            "FileChanged",
            "WorktreeCreate",
            "WorktreeRemove",
            "PreCompact",
            "PostCompact",
            "Elicitation",
            "ElicitationResult",
            "PreModelSwitch",
            "PostModelSwitch",
        )
    )

    def read(self, data: dict[str, Any], event: str) -> HookQuestion:
        """Return the question of a payload."""
        event = text_of(data, "hook_event_name") or event
        session, agent = self.session_of(data), text_of(data, "agent_type")
        if event in self.judged:
            return HookQuestion(event, CALL, session, call=_call(data), agent=agent)
        if event in _RESULTS:
            return HookQuestion(event, HAPPENED, session, call=_call(data), told=_told(event, data), agent=agent)
        if event == "UserPromptSubmit":
            return HookQuestion(event, PROMPT, session, text=text_of(data, "submitted_prompt", "prompt"), agent=agent)
        if event in _STOPS:
            said, again = text_of(data, "last_assistant_message"), data.get("stop_hook_active") is True
            return HookQuestion(event, STOP, session, text=said, agent=agent, asked_again=again)
        if event == "SessionEnd":
            return happened(event, session, {"kind": "session_end"}, agent)
        return other(event, session, self.silent, data)

    def session_of(self, data: dict[str, Any]) -> str:
        """Return the session of a payload."""
        return text_of(data, "session_id")

    def warn(self, answer: HookAnswer, text: str) -> HookAnswer:
        """Show the user a message."""
        return HookAnswer({**(answer.said or {}), self.message: text})

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Deny the call."""
        if question.event == "PermissionRequest":
            answer = self._specific(question, {"decision": {"behavior": "deny", "message": text}})
        else:
            answer = self._specific(question, {"permissionDecision": "deny", "permissionDecisionReason": text})
        return self._ended(answer, text) if ends and self.ends else answer

    def may_modify(self, question: HookQuestion) -> bool:
        """Whether the input of the call can be replaced: before the tool, not where a permission is asked for."""
        return self.modifies and question.event == "PreToolUse"

    def modify(self, question: HookQuestion, args: dict[str, Any]) -> HookAnswer:
        """Replace the input. The contract takes it beside an allow only, so that the user is not asked."""
        return self._specific(question, {"permissionDecision": "allow", "updatedInput": args})

    def ask(self, question: HookQuestion, text: str) -> HookAnswer:
        """Open the agent's own prompt; the prompt of a PermissionRequest is open already."""
        if not self.asks:
            return self.deny(question, text)
        if question.event == "PermissionRequest":
            return self.warn(self.allow(question), text)
        return self._specific(question, {"permissionDecision": "ask", "permissionDecisionReason": text})

    def refuse_prompt(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Drop the prompt."""
        del question
        answer = HookAnswer({"decision": "block", "reason": text})
        return self._ended(answer, text) if ends and self.ends else answer

    def hold(self, question: HookQuestion, text: str) -> HookAnswer:
        """Send the agent back to work."""
        del question
        return HookAnswer({"decision": "block", "reason": text})

    def _specific(self, question: HookQuestion, decision: dict[str, Any]) -> HookAnswer:
        return HookAnswer({"hookSpecificOutput": {"hookEventName": question.event, **decision}})

    def _ended(self, answer: HookAnswer, text: str) -> HookAnswer:
        return HookAnswer({**(answer.said or {}), "continue": False, "stopReason": text})


class Codex(ClaudeCode):
    """Codex: it throws away a denial that stands beside ``continue: false``, and cannot ask."""

    name = "codex"
    asks = False
    ends = False


class VsCode(ClaudeCode):
    """VS Code: a prompt is refused by the common keys, and ``Stop`` is answered in a wrapper."""

    name = "vscode"
    may_lack_session = True
    judged = ("PreToolUse",)

    def session_of(self, data: dict[str, Any]) -> str:
        """Return the session; the contract leaves it out at times, and a transcript is of one session."""
        return text_of(data, "session_id", "transcript_path")

    def refuse_prompt(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Stop the agent before it reads the prompt."""
        del question, ends
        return self._ended(HookAnswer(), text)

    def hold(self, question: HookQuestion, text: str) -> HookAnswer:
        """Send the agent back to work."""
        decision = {"decision": "block", "reason": text}
        return self._specific(question, decision) if question.event == "Stop" else HookAnswer(decision)


class Kimi(ClaudeCode):
    """Kimi Code: one form of denial for calls, prompts and the end of the work; no prompt of its own."""

    name = "kimi"
    modifies = False
    most_holds = 1
    message = "message"
    asks = False
    ends = False
    judged = ("PreToolUse",)
    silent = ClaudeCode.silent | frozenset(
        (
            "UserPromptQueued",
            "PermissionRequest",
            "PermissionResult",
            "Interrupt",
            "TurnStarted",
            "SessionHeartbeat",
            "TaskStarted",
        )
    )

    def refuse_prompt(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Drop the prompt."""
        return self.deny(question, text, ends=ends)

    def hold(self, question: HookQuestion, text: str) -> HookAnswer:
        """Send the agent back to work; it may be held up once."""
        held = question.event == "Stop"
        return self.deny(question, text) if held else self.warn(self.allow(question), text)


class QwenCode(ClaudeCode):
    """Qwen Code: Claude Code's answers."""

    name = "qwen-code"
    modifies = False  # documented, and not applied by 0.22
    silent = ClaudeCode.silent | frozenset(("SessionDelete", "TodoCreated", "TodoCompleted"))


class Droid(ClaudeCode):
    """Factory Droid: Claude Code's answers, without ids of calls."""

    name = "droid"
    modifies = False  # it adds fields to the input and takes none out
    judged = ("PreToolUse",)


def _told(event: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return what the gate is told of a result."""
    names = ("error",) if event == "PostToolUseFailure" else ("tool_response", "tool_output")
    output = next((data[name] for name in names if name in data), None)
    return {
        "kind": "tool_result",
        "status": _RESULTS[event],
        **({"output": output} if _RESULTS[event] != "blocked" else {}),
    }


def _call(data: dict[str, Any]) -> Call:
    return Call(text_of(data, "tool_name"), data.get("tool_input"), text_of(data, "tool_use_id", "tool_call_id"))
