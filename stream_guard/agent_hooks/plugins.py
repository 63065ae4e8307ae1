"""OpenCode and Amp: their plugins send what a handler got to the gate, and do what comes back."""

from __future__ import annotations

from stream_guard.agent_hooks.question import (
    CALL,
    STOP,
    AgentDialect,
    Call,
    HookAnswer,
    HookQuestion,
    object_of,
    other,
    result,
    text_of,
)

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from typing import Any


class OpenCode(AgentDialect):
    """OpenCode: the plugin throws, and the model reads what it threw."""

    name = "opencode"
    _SILENT = frozenset(("chat.message", "command.execute.before", "shell.env", "event", "tool.definition"))

    def read(self, data: dict[str, Any], event: str) -> HookQuestion:
        """Return the question of what a handler got."""
        event = text_of(data, "hook") or event
        given, output = object_of(data, "input"), object_of(data, "output")
        tool, session, call_id = text_of(given, "tool"), text_of(given, "sessionID"), text_of(given, "callID")
        if event == "tool.execute.before":
            return HookQuestion(event, CALL, session, call=Call(tool, output.get("args"), call_id))
        if event == "tool.execute.after":
            failed = object_of(output, "metadata").get("exit") not in (None, 0)
            call = Call(tool, given.get("args"), call_id)
            return result(event, session, call, failed=failed, output=output.get("output"))
        return other(event, session, self._SILENT, {**data, **given})

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Have the plugin throw."""
        del question, ends
        return HookAnswer({"throws": text})

    def refuse_unread(self, text: str) -> HookAnswer:
        """Have the plugin throw."""
        return HookAnswer({"throws": text})


class Amp(AgentDialect):
    """Amp: a handler returns an action."""

    name = "amp"
    _SILENT = frozenset(("agent.start", "session.start"))

    def read(self, data: dict[str, Any], event: str) -> HookQuestion:
        """Return the question of what a handler got."""
        event, session = text_of(data, "event") or event, text_of(object_of(data, "thread"), "id")
        call = Call(text_of(data, "tool"), data.get("input"), text_of(data, "toolUseID"))
        if event == "tool.call":
            return HookQuestion(event, CALL, session, call=call)
        if event == "tool.result":
            failed = data.get("status") in ("error", "cancelled")
            return result(event, session, call, failed=failed, output=data.get("error" if failed else "output"))
        if event == "agent.end":
            return HookQuestion(event, STOP, session)
        return other(event, session, self._SILENT, data)

    def allow(self, question: HookQuestion) -> HookAnswer:
        """Say the allow where a handler has to return an action."""
        return HookAnswer({"action": "allow"} if question.event == "tool.call" else None)

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Refuse the call; the model reads why and goes on."""
        del question, ends
        return HookAnswer({"action": "reject-and-continue", "message": text})

    def may_modify(self, question: HookQuestion) -> bool:
        """A handler may return other arguments."""
        return question.event == "tool.call"

    def modify(self, question: HookQuestion, args: dict[str, Any]) -> HookAnswer:
        """Replace the arguments."""
        del question
        return HookAnswer({"action": "modify", "input": args})

    def refuse_unread(self, text: str) -> HookAnswer:
        """Refuse what may be a call."""
        return HookAnswer({"action": "reject-and-continue", "message": text})
