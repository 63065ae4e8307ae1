"""How each coding agent speaks: the names in its payloads, and a verdict in its words.

The contracts are those of Claude Code 2.1, Codex 0.150, VS Code of August 2026, Kimi Code 0.38, Qwen Code 0.22, Factory
Droid of July 2026, and of the versions of the others that were out then. Agents that took over Claude Code's contract
differ in what an answer may hold, and an answer with one key too many is thrown away.
"""

from __future__ import annotations

from stream_guard.agent_hooks.question import (
    REFUSED,
    STOP,
    AgentDialect,
    Call,
    HookAnswer,
    HookQuestion,
    made_call_id,
    object_of,
    text_of,
)

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from typing import Any, ClassVar


class ClaudeCode(AgentDialect):
    """Claude Code: one JSON object in, one out, or nothing. It can ask its user, and ``continue: false`` stops it."""

    name = "claude-code"
    message = "systemMessage"  # what the user is shown
    asks = True  # permissionDecision may be "ask"
    can_end = True  # "continue": false may stand beside a denial
    modifies = True  # "updatedInput" counts, and replaces the whole input
    agent_names = ("agent_type",)
    prompt_names = ("submitted_prompt", "prompt")
    said_names = ("last_assistant_message",)
    id_names = ("tool_use_id", "tool_call_id")
    output_names = ("tool_response", "tool_output")
    calls: tuple[str, ...] = ("PreToolUse", "PermissionRequest")
    # The last one was refused by the user, or by the agent's own rules.
    results: ClassVar[dict[str, str]] = {
        "PostToolUse": "ok",
        "PostToolUseFailure": "error",
        "PermissionDenied": "blocked",
    }
    stops = ("Stop", "SubagentStop")
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

    def warn(self, answer: HookAnswer, text: str) -> HookAnswer:
        """Show the user a message."""
        return HookAnswer({**(answer.said or {}), self.message: text})

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Deny the call."""
        if question.event == "PermissionRequest":
            answer = self._specific(question, {"decision": {"behavior": "deny", "message": text}})
        else:
            answer = self._specific(question, {"permissionDecision": "deny", "permissionDecisionReason": text})
        return self._ended(answer, text) if ends and self.can_end else answer

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
        answer = self.hold(question, text)
        return self._ended(answer, text) if ends and self.can_end else answer

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
    can_end = False


class VsCode(ClaudeCode):
    """VS Code: a prompt is refused by the common keys, and ``Stop`` is answered in a wrapper."""

    name = "vscode"
    may_lack_session = True
    session_names = ("session_id", "transcript_path")  # the first is left out at times; a transcript is of one session
    calls = ("PreToolUse",)

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
    can_end = False
    calls = ("PreToolUse",)
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
    calls = ("PreToolUse",)


class Copilot(AgentDialect):
    """GitHub Copilot CLI and its cloud agent: payloads in two spellings, answers in one, flat."""

    name = "copilot-cli"
    session_names = ("sessionId", "session_id")
    id_names = ("toolCallId", "tool_use_id")
    output_names = error_names = ("toolResult", "tool_result", "tool_response", "error")
    calls = ("preToolUse", "permissionRequest")
    results: ClassVar[dict[str, str]] = {"postToolUse": "ok", "postToolUseFailure": "error"}
    prompts = ("userPromptSubmitted",)
    stops = ("agentStop", "subagentStop")
    endings = ("sessionEnd",)
    # An event has two names; the first is the one of Claude Code.
    aliases: ClassVar[dict[str, str]] = {
        "PreToolUse": "preToolUse",
        "PermissionRequest": "permissionRequest",
        "PostToolUse": "postToolUse",
        "PostToolUseFailure": "postToolUseFailure",
        "UserPromptSubmit": "userPromptSubmitted",
        "Stop": "agentStop",
        "SubagentStop": "subagentStop",
        "SessionEnd": "sessionEnd",
    }
    silent = frozenset(
        (
            *("sessionStart", "SessionStart", "userPromptTransformed", "UserPromptTransformed", "subagentStart"),
            *("SubagentStart", "errorOccurred", "ErrorOccurred", "preCompact", "PreCompact"),
            *("notification", "Notification"),
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

    def event_of(self, data: dict[str, Any], event: str) -> str:
        """Return the event of a payload, which its keys tell where nothing names it."""
        return super().event_of(data, event) or next((name for key, name in self._BY_KEY if key in data), "")

    def call_of(self, data: dict[str, Any], event: str) -> Call:
        """Return the call of a payload."""
        del event
        tool = text_of(data, "toolName", "tool_name")
        args = data["toolArgs"] if "toolArgs" in data else data.get("tool_input")
        return Call(tool, args, text_of(data, *self.id_names))

    def outcome_of(self, data: dict[str, Any], event: str) -> tuple[str, Any]:
        """Return the status of a result, and what the tool gave."""
        status, output = super().outcome_of(data, event)
        kind = output.get("resultType") if isinstance(output, dict) else None
        return "error" if kind in ("failure", "denied", "error") else status, output

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


class CursorAgent(AgentDialect):
    """Cursor: two events for one call, and an allow that has to be said, since silence may count as a broken hook.

    ``permission`` answers what waits, ``continue`` prompts, and a follow-up message the end.
    """

    name = "cursor"
    most_holds = 5  # the default of its loop_limit
    session_names = ("conversation_id", "session_id", "parent_conversation_id")
    output_names, error_names = ("tool_output",), ("error_message",)
    _READS = ("beforeReadFile", "beforeTabFileRead")
    _ASKS = ("beforeShellExecution", "beforeMCPExecution")
    _FOR_THE_USER_ALONE = (*_READS, "subagentStart")
    calls = ("preToolUse", *_ASKS, *_FOR_THE_USER_ALONE)
    results: ClassVar[dict[str, str]] = {"postToolUse": "ok", "postToolUseFailure": "error"}
    prompts = ("beforeSubmitPrompt",)
    stops = ("stop", "subagentStop")
    endings = ("sessionEnd",)
    # What comes after the tool is told once, by postToolUse; the first four say the same again.
    silent = frozenset(
        (
            *("afterShellExecution", "afterMCPExecution", "afterFileEdit", "afterTabFileEdit", "sessionStart"),
            *("preCompact", "afterAgentResponse", "afterAgentThought", "workspaceOpen"),
        )
    )

    def read(self, data: dict[str, Any], event: str) -> HookQuestion:
        """Return the question of a payload; one about the end says how often the agent was sent back."""
        asked, loops = super().read(data, event), data.get("loop_count")
        if asked.about == STOP and isinstance(loops, int):
            asked.asked_again, asked.held = loops > 0, loops
        return asked

    def call_of(self, data: dict[str, Any], event: str) -> Call:
        """Return the call. Its id is made of what it does, so that both events of one call are one attempt."""
        tool, args = self._tool_and_args(data, event)
        made = made_call_id(tool, args)
        return Call(tool, args, made, key=f"{text_of(data, 'generation_id')}{made}")

    def allow(self, question: HookQuestion) -> HookAnswer:
        """Say the allow."""
        if question.event in self.calls:
            return HookAnswer({"permission": "allow"})
        return HookAnswer({"continue": True} if question.event in self.prompts else None)

    def warn(self, answer: HookAnswer, text: str) -> HookAnswer:
        """Show the user a message beside an allow; elsewhere there is no place for one."""
        return HookAnswer({**answer.said, "user_message": text}) if answer.said else HookAnswer(stderr=text)

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Deny the call; there is no way to end the session."""
        del ends
        return self._permission(question, "deny", text)

    def ask(self, question: HookQuestion, text: str) -> HookAnswer:
        """Ask the user where that is enforced: for the shell and MCP. Elsewhere the call is denied."""
        return self._permission(question, "ask" if question.event in self._ASKS else "deny", text)

    def refuse_prompt(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Do not send the prompt."""
        del question, ends
        return HookAnswer({"continue": False, "user_message": text})

    def hold(self, question: HookQuestion, text: str) -> HookAnswer:
        """Send what is missing as the next message."""
        del question
        return HookAnswer({"followup_message": text})

    def _permission(self, question: HookQuestion, word: str, text: str) -> HookAnswer:
        said = {"permission": word, "user_message": text}
        return HookAnswer(said if question.event in self._FOR_THE_USER_ALONE else {**said, "agent_message": text})

    def _tool_and_args(self, data: dict[str, Any], event: str) -> tuple[str, Any]:
        """Return the call as preToolUse says it, whichever event asks."""
        if event == "beforeShellExecution":
            return "Shell", {"command": text_of(data, "command"), "working_directory": text_of(data, "cwd")}
        if event == "beforeMCPExecution":
            return f"MCP:{text_of(data, 'tool_name')}", data.get("tool_input")
        if event in self._READS:
            return "Read", {"file_path": text_of(data, "file_path")}
        if event == "subagentStart":
            return "Task", {"subagent_type": text_of(data, "subagent_type"), "task": text_of(data, "task")}
        tool, args = text_of(data, "tool_name"), data.get("tool_input")
        if tool == "Shell" and isinstance(args, dict) and "command" in args:
            folder = text_of(args, "working_directory") or text_of(data, "cwd")
            return tool, {**args, "working_directory": folder}
        return tool, args


class GeminiCli(AgentDialect):
    """Gemini CLI of version 0.56: ``decision`` at the top, no ids of calls; ``continue: false`` ends the loop."""

    name = "gemini-cli"
    denies_prompts = True
    said_names = ("prompt_response",)
    output_names = ("tool_response",)
    calls = ("BeforeTool",)
    results: ClassVar[dict[str, str]] = {"AfterTool": "ok"}
    prompts = ("BeforeAgent",)
    stops = ("AfterAgent",)
    silent = frozenset(
        ("BeforeModel", "AfterModel", "BeforeToolSelection", "SessionStart", "PreCompress", "Notification")
    )

    def outcome_of(self, data: dict[str, Any], event: str) -> tuple[str, Any]:
        """Return the status of a result, and what the tool gave."""
        status, said = super().outcome_of(data, event)
        return "error" if isinstance(said, dict) and said.get("error") else status, said

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

    def hold(self, question: HookQuestion, text: str) -> HookAnswer:
        """Send the agent back to work."""
        return self.deny(question, text)


class Cline(AgentDialect):
    """Cline's extension and CLI: an executable file for each event, and every answer is an object.

    A refusal ends the run. Exit codes stop nothing: what cannot be read is refused in words, too.
    """

    name = "cline"
    denies_prompts = True
    event_names = ("hookName",)
    session_names = ("taskId",)
    results: ClassVar[dict[str, str]] = {"PostToolUse": "ok"}
    stops = ()
    endings = ("SessionShutdown",)
    # The CLI has names of its own for the same events.
    aliases: ClassVar[dict[str, str]] = {
        "tool_call": "PreToolUse",
        "tool_result": "PostToolUse",
        "prompt_submit": "UserPromptSubmit",
        "session_shutdown": "SessionShutdown",
    }
    silent = frozenset(
        (
            *("TaskStart", "TaskResume", "TaskCancel", "TaskComplete", "TaskError", "PreCompact", "Notification"),
            *("agent_start", "agent_resume", "agent_abort", "agent_end", "agent_error"),
        )
    )

    def call_of(self, data: dict[str, Any], event: str) -> Call:
        """Return the call: that of the CLI has real types and an id, that of the extension texts."""
        of_cli, of_extension = ("tool_call", "preToolUse") if event in self.calls else ("tool_result", "postToolUse")
        inner = object_of(data, of_cli)
        if inner:
            return Call(text_of(inner, "name"), inner.get("input"), text_of(inner, "id"))
        inner = object_of(data, of_extension)
        return Call(text_of(inner, "toolName"), inner.get("parameters"))

    def outcome_of(self, data: dict[str, Any], event: str) -> tuple[str, Any]:
        """Return the status of a result, and what the tool gave."""
        inner = object_of(data, "tool_result") or object_of(data, "postToolUse")
        failed = bool(inner.get("error")) or inner.get("success") is False
        output = inner.get("output", inner.get("result", inner.get("error")))
        return "error" if failed else self.results[event], output

    def prompt_of(self, data: dict[str, Any]) -> str:
        """Return what a person wrote."""
        return super().prompt_of(object_of(data, "userPromptSubmit")) or super().prompt_of(data)

    def allow(self, question: HookQuestion) -> HookAnswer:
        """Say that nothing is cancelled."""
        del question
        return HookAnswer({"cancel": False})

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Cancel. It stops the run, since Cline cannot skip one call."""
        del question, ends
        return HookAnswer({"cancel": True, "errorMessage": text})

    def refuse_unread(self, text: str) -> HookAnswer:
        """Cancel: an exit code would let the tool run."""
        return HookAnswer({"cancel": True, "errorMessage": text}, stderr=text)


class _ByExitCode(AgentDialect):
    """Stopped by exit code 2, with the reason on standard error."""

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Refuse the call."""
        del question, ends
        return HookAnswer(stderr=text, code=REFUSED)


class Windsurf(_ByExitCode):
    """Windsurf, now Devin desktop: an event for each kind of tool, whose names are made of them."""

    name = "windsurf"
    denies_prompts = True
    event_names = ("agent_action_name",)
    session_names = ("trajectory_id",)
    calls = ("pre_read_code", "pre_write_code", "pre_run_command", "pre_mcp_tool_use")
    results: ClassVar[dict[str, str]] = dict.fromkeys(
        ("post_read_code", "post_write_code", "post_run_command", "post_mcp_tool_use"), "ok"
    )
    prompts = ("pre_user_prompt",)
    stops = endings = ()
    silent = frozenset(("post_cascade_response", "post_cascade_response_with_transcript", "post_setup_worktree"))

    def call_of(self, data: dict[str, Any], event: str) -> Call:
        """Return the call of a payload."""
        told, tool = object_of(data, "tool_info"), event.partition("_")[2]
        if tool == "mcp_tool_use":
            name = f"mcp__{text_of(told, 'mcp_server_name')}__{text_of(told, 'mcp_tool_name')}"
            return Call(name, told.get("mcp_tool_arguments"))
        if tool == "run_command":
            return Call(tool, {"command": text_of(told, "command_line"), "cwd": text_of(told, "cwd")})
        return Call(tool, told)

    def outcome_of(self, data: dict[str, Any], event: str) -> tuple[str, Any]:
        """Return the status of a result, and what the tool gave."""
        return self.results[event], object_of(data, "tool_info").get("mcp_result")

    def prompt_of(self, data: dict[str, Any]) -> str:
        """Return what a person wrote."""
        return text_of(object_of(data, "tool_info"), "user_prompt")


class AmazonQ(_ByExitCode):
    """Amazon Q Developer CLI and Kiro CLI 2: no session and no ids; only a call can be stopped."""

    name = "amazon-q"
    may_lack_session = True
    output_names = ("tool_response",)
    calls = ("preToolUse",)
    results: ClassVar[dict[str, str]] = {"postToolUse": "ok"}
    prompts = ("userPromptSubmit",)
    stops = ("stop",)
    endings = ()
    silent = frozenset(
        (
            *("agentSpawn", "sessionStart", "preTaskExec", "postTaskExec"),
            *("postFileCreate", "postFileSave", "postFileDelete", "manual"),
        )
    )

    def event_of(self, data: dict[str, Any], event: str) -> str:
        """Return the event of a payload; Kiro of version 3 begins the same names with a capital letter."""
        named = super().event_of(data, event)
        return named[:1].lower() + named[1:]

    def outcome_of(self, data: dict[str, Any], event: str) -> tuple[str, Any]:
        """Return the status of a result, and what the tool gave."""
        status, output = super().outcome_of(data, event)
        return "error" if object_of(data, "tool_response").get("success") is False else status, output


class Kiro(AmazonQ):
    """Kiro CLI 3 and IDE 1: prompts can be refused."""

    name = "kiro"
    denies_prompts = True


class Goose(AgentDialect):
    """Goose: only PreToolUse is listened to."""

    name = "goose"
    event_names = ("event",)
    prompt_names = ("message", "matcher_context")
    said_names = ("message",)
    output_names = error_names = ("tool_output",)
    silent = frozenset(
        (
            *("SessionStart", "BeforeReadFile", "AfterFileEdit", "BeforeShellExecution", "AfterShellExecution"),
            *("SubagentStart", "SubagentStop"),
        )
    )

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Refuse the call."""
        del question, ends
        return HookAnswer({"decision": "block", "reason": text})


class OpenCode(AgentDialect):
    """OpenCode: its plugin sends what a handler got, and throws; the model reads what it threw."""

    name = "opencode"
    event_names = ("hook",)
    session_names = ("sessionID",)
    calls = ("tool.execute.before",)
    results: ClassVar[dict[str, str]] = {"tool.execute.after": "ok"}
    prompts = stops = endings = ()
    silent = frozenset(("chat.message", "command.execute.before", "shell.env", "event", "tool.definition"))

    def read(self, data: dict[str, Any], event: str) -> HookQuestion:
        """Return the question of what a handler got: its input tells the tool and the session."""
        return super().read({**object_of(data, "input"), **data}, event)

    def call_of(self, data: dict[str, Any], event: str) -> Call:
        """Return the call of a payload."""
        args = object_of(data, "output").get("args") if event in self.calls else data.get("args")
        return Call(text_of(data, "tool"), args, text_of(data, "callID"))

    def outcome_of(self, data: dict[str, Any], event: str) -> tuple[str, Any]:
        """Return the status of a result, and what the tool gave."""
        output = object_of(data, "output")
        failed = object_of(output, "metadata").get("exit") not in (None, 0)
        return "error" if failed else self.results[event], output.get("output")

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
    event_names = ("event",)
    id_names = ("toolUseID",)
    calls = ("tool.call",)
    results: ClassVar[dict[str, str]] = {"tool.result": "ok"}
    prompts = endings = ()
    stops = ("agent.end",)
    silent = frozenset(("agent.start", "session.start"))

    def session_of(self, data: dict[str, Any]) -> str:
        """Return the session of a payload."""
        return text_of(object_of(data, "thread"), "id")

    def call_of(self, data: dict[str, Any], event: str) -> Call:
        """Return the call of a payload."""
        del event
        return Call(text_of(data, "tool"), data.get("input"), text_of(data, *self.id_names))

    def outcome_of(self, data: dict[str, Any], event: str) -> tuple[str, Any]:
        """Return the status of a result, and what the tool gave."""
        failed = data.get("status") in ("error", "cancelled")
        return "error" if failed else self.results[event], data.get("error" if failed else "output")

    def allow(self, question: HookQuestion) -> HookAnswer:
        """Say the allow where a handler has to return an action."""
        return HookAnswer({"action": "allow"} if question.event in self.calls else None)

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Refuse the call; the model reads why and goes on."""
        del question, ends
        return HookAnswer({"action": "reject-and-continue", "message": text})

    def may_modify(self, question: HookQuestion) -> bool:
        """A handler may return other arguments."""
        return question.event in self.calls

    def modify(self, question: HookQuestion, args: dict[str, Any]) -> HookAnswer:
        """Replace the arguments."""
        del question
        return HookAnswer({"action": "modify", "input": args})

    def refuse_unread(self, text: str) -> HookAnswer:
        """Refuse what may be a call."""
        return HookAnswer({"action": "reject-and-continue", "message": text})


DIALECTS: dict[str, type[AgentDialect]] = {
    kind.name: kind
    for kind in (
        *(ClaudeCode, Codex, VsCode, Kimi, QwenCode, Droid, Copilot, CursorAgent, GeminiCli, Cline),
        *(Windsurf, AmazonQ, Kiro, Goose, OpenCode, Amp),
    )
}
