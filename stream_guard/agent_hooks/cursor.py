"""Cursor: two events for one call, and an allow that has to be said, since silence may count as a broken hook."""

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
    made_call_id,
    other,
    result,
    text_of,
)

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from typing import Any

_READS = ("beforeReadFile", "beforeTabFileRead")
_CALLS = ("preToolUse", "beforeShellExecution", "beforeMCPExecution", *_READS, "subagentStart")
_ASKS = ("beforeShellExecution", "beforeMCPExecution")
_FOR_THE_USER_ALONE = (*_READS, "subagentStart")
# What comes after the tool is told once, by postToolUse; these say the same again.
_SILENT = frozenset(
    (
        "afterShellExecution",
        "afterMCPExecution",
        "afterFileEdit",
        "afterTabFileEdit",
        "sessionStart",
        "preCompact",
        "afterAgentResponse",
        "afterAgentThought",
        "workspaceOpen",
    )
)


class CursorAgent(AgentDialect):
    """Cursor: ``permission`` for what waits, ``continue`` for prompts, a follow-up message at the end."""

    name = "cursor"
    most_holds = 5  # the default of its loop_limit

    def read(self, data: dict[str, Any], event: str) -> HookQuestion:
        """Return the question of a payload."""
        event = text_of(data, "hook_event_name") or event
        session = text_of(data, "conversation_id", "session_id", "parent_conversation_id")
        if event in _CALLS:
            return HookQuestion(event, CALL, session, call=_call(data, event))
        if event in ("postToolUse", "postToolUseFailure"):
            failed = event == "postToolUseFailure"
            output = data.get("error_message" if failed else "tool_output")
            return result(event, session, _call(data, event), failed=failed, output=output)
        if event == "beforeSubmitPrompt":
            return HookQuestion(event, PROMPT, session, text=text_of(data, "prompt"))
        if event in ("stop", "subagentStop"):
            loops = data.get("loop_count")
            asked = HookQuestion(event, STOP, session, asked_again=isinstance(loops, int) and loops > 0)
            asked.held = loops if isinstance(loops, int) else None
            return asked
        if event == "sessionEnd":
            return happened(event, session, {"kind": "session_end"})
        return other(event, session, _SILENT, data)

    def allow(self, question: HookQuestion) -> HookAnswer:
        """Say the allow."""
        if question.event in _CALLS:
            return HookAnswer({"permission": "allow"})
        return HookAnswer({"continue": True} if question.event == "beforeSubmitPrompt" else None)

    def warn(self, answer: HookAnswer, text: str) -> HookAnswer:
        """Show the user a message beside an allow; elsewhere there is no place for one."""
        return HookAnswer({**answer.said, "user_message": text}) if answer.said else HookAnswer(stderr=text)

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Deny the call; there is no way to end the session."""
        del ends
        return _permission(question, "deny", text)

    def ask(self, question: HookQuestion, text: str) -> HookAnswer:
        """Ask the user where that is enforced: for the shell and MCP. Elsewhere the call is denied."""
        return _permission(question, "ask" if question.event in _ASKS else "deny", text)

    def refuse_prompt(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Do not send the prompt."""
        del question, ends
        return HookAnswer({"continue": False, "user_message": text})

    def hold(self, question: HookQuestion, text: str) -> HookAnswer:
        """Send what is missing as the next message."""
        del question
        return HookAnswer({"followup_message": text})


def _permission(question: HookQuestion, word: str, text: str) -> HookAnswer:
    if question.event in _FOR_THE_USER_ALONE:
        return HookAnswer({"permission": word, "user_message": text})
    return HookAnswer({"permission": word, "user_message": text, "agent_message": text})


def _call(data: dict[str, Any], event: str) -> Call:
    """Return the call. Its id is made of what it does, so that both events of one call are one attempt."""
    tool, args = _tool_and_args(data, event)
    made = made_call_id(tool, args)
    return Call(tool, args, made, key=f"{text_of(data, 'generation_id')}{made}")


def _tool_and_args(data: dict[str, Any], event: str) -> tuple[str, Any]:
    """Return the call as preToolUse says it, whichever event asks."""
    if event == "beforeShellExecution":
        return "Shell", {"command": text_of(data, "command"), "working_directory": text_of(data, "cwd")}
    if event == "beforeMCPExecution":
        return f"MCP:{text_of(data, 'tool_name')}", data.get("tool_input")
    if event in _READS:
        return "Read", {"file_path": text_of(data, "file_path")}
    if event == "subagentStart":
        return "Task", {"subagent_type": text_of(data, "subagent_type"), "task": text_of(data, "task")}
    tool, args = text_of(data, "tool_name"), data.get("tool_input")
    if tool == "Shell" and isinstance(args, dict) and "command" in args:
        folder = text_of(args, "working_directory") or text_of(data, "cwd")
        return tool, {**args, "working_directory": folder}
    return tool, args
