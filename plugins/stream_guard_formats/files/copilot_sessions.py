"""Session files of the GitHub Copilot CLI: one event to a line, and the older timelines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from stream_guard import Event, Json, Record
from stream_guard_formats.conversation import (
    Conversation,
    ResultStatus,
    identifier,
    label,
    text_block,
    text_of,
    tool_use,
)
from stream_guard_formats.files.session_files import (
    SessionFileDecoder,
    SessionProgress,
    at_place,
    moment,
    named_session,
)
from stream_guard_formats.reading import number_in, object_at, objects_in, text_at

_TOLD: Final = ("user.message", "assistant.message", "tool.execution_start", "tool.execution_complete")
_LINES: Final = frozenset(
    (
        *(
            *_TOLD,
            "session.start",
            "session.resume",
            "session.info",
            "session.warning",
            "session.error",
            "session.idle",
        ),
        *("session.model_change", "session.mode_changed", "session.truncation", "session.compaction_start"),
        *("session.compaction_complete", "session.shutdown", "session.handoff", "session.snapshot_rewind"),
        *("session.title_changed", "session.context_changed", "session.usage_info", "session.plan_changed"),
        *("session.task_complete", "session.usage_checkpoint", "session.import_legacy", "session.result", "abort"),
        *("user.input_requested", "assistant.turn_start", "assistant.turn_end", "assistant.intent", "assistant.usage"),
        *("assistant.reasoning", "assistant.reasoning_delta", "assistant.message_delta", "assistant.streaming_delta"),
        *("assistant.tool_call_delta", "tool.user_requested", "tool.execution_partial_result", "skill.invoked"),
        *("tool.execution_progress", "subagent.started", "subagent.completed", "subagent.failed", "subagent.selected"),
        *("subagent.deselected", "subagent.configured", "hook.start", "hook.end", "permission.requested"),
        *("permission.completed", "system.message", "system.notification", "pending_messages.modified"),
    )
)
_TIMELINE: Final = frozenset(("user", "copilot", "tool_call_requested", "tool_call_completed", "info", "error"))
_EXIT_CODE: Final = re.compile(r"exit code (\d{1,9})>?\s*\Z")
_REFUSED: Final = ("denied", "rejected", "user_rejected", "permission_denied")


class CopilotDecoder(SessionFileDecoder):
    """Reads ``{"type": "assistant.message", "data": {...}}`` and its like.

    A call is told by the answer that asks for it, or else by the start of its tool. What a sub-agent does belongs to
    the run of the call that started it.
    """

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a line of a session file, or a timeline."""
        if not isinstance(data, dict):
            return 0.0
        kind = data.get("type")
        if isinstance(kind, str) and isinstance(data.get("data"), dict) and "session_id" not in data:
            return 0.9 if kind in _LINES else 0.0
        if isinstance(data.get("timeline"), list) and ("sessionId" in data or "chatMessages" in data):
            return 0.95
        return 0.9 if kind in ("tool_call_requested", "tool_call_completed") and "callId" in data else 0.0

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the line, or of a whole timeline."""
        if not isinstance(data, dict) or not isinstance(data.get("timeline"), list):
            return super().read(data, record)
        conversation = Conversation(text_at(data, "sessionId")[:512] or self.session_of(record))
        progress = SessionProgress(session_id=conversation.session_id)
        for number, item in enumerate(objects_in(data, "timeline", "items")):
            part = msgspec.structs.replace(record, position=record.position + number)
            self._tell_item(item, conversation, progress, part, {"time": moment(item.get("timestamp"))})
        return conversation.events

    def learn(self, line: dict[str, Json], progress: SessionProgress) -> None:
        """Note whose the file is, the model, and the names of sub-agents."""
        kind, data = line.get("type"), object_at(line, "data")
        if kind in ("session.start", "session.resume"):
            named_session(progress, text_at(data, "sessionId"))
        if kind in ("session.start", "session.resume", "session.model_change"):
            progress.model = text_at(data, "newModel", "selectedModel", "model") or progress.model
        if kind == "subagent.started":
            name = text_at(data, "agentName", "agentDisplayName")[:200]
            for run in {text_at(line, "agentId"), text_at(data, "toolCallId")} - {""}:
                progress.agents[run[:200]] = name

    def tell(
        self, line: dict[str, Json], conversation: Conversation, progress: SessionProgress, record: Record
    ) -> None:
        """Add the events of a line."""
        kind, data = text_at(line, "type"), object_at(line, "data")
        header: dict[str, Any] = {"time": moment(line.get("timestamp", line.get("ts")))}
        if kind in _TIMELINE and not data:
            self._tell_item(line, conversation, progress, record, header)
            return
        if line.get("ephemeral") is True:
            return
        header |= _speaker(line, data, progress) | at_place(line.get("id"), "", record)
        if kind == "user.message":
            if "run_id" not in header:  # a sub-agent's parent writes in the user's role
                conversation.user(data, text_of(data.get("content")), **header)
        elif kind == "assistant.message":
            self._answer(data, conversation, progress, header)
        elif kind == "tool.execution_start":
            call_id = identifier(data.get("toolCallId"))
            if not progress.begin(call_id):
                block = tool_use(call_id, _tool_name(data), data.get("arguments"), strict_keys=self.strict_keys)
                conversation.call(data, block, **header)
        elif kind == "tool.execution_complete":
            _add_result(data, conversation, header)
        elif kind not in _LINES:
            self.skipped.add(record, kind)

    def _answer(
        self,
        data: dict[str, Json],
        conversation: Conversation,
        progress: SessionProgress,
        header: dict[str, Any],
    ) -> None:
        text = text_of(data.get("content"))
        blocks: list[Json] = [text_block(text)] if text else []
        for call in objects_in(data, "toolRequests", "tool requests"):
            call_id = identifier(call.get("toolCallId"))
            if "arguments" in call:  # some versions leave them to the start of the tool
                progress.ask(call_id)
                blocks.append(tool_use(call_id, _tool_name(call), call.get("arguments"), strict_keys=self.strict_keys))
        if model := text_at(data, "model"):
            header["labels"] = {"model": label(model)}
        usage = {name: data[name] for name in ("inputTokens", "outputTokens") if name in data}
        if blocks:
            conversation.turn(data, blocks, extra={"usage": usage or None}, **header)

    def _tell_item(
        self,
        item: dict[str, Json],
        conversation: Conversation,
        progress: SessionProgress,
        record: Record,
        header: dict[str, Any],
    ) -> None:
        """Add the event of an item of a timeline."""
        kind, text = item.get("type"), text_of(item.get("text"))
        call_id = identifier(item.get("callId"))
        identity = [record.position, kind, call_id, text]
        if kind == "user":
            conversation.user(identity, text, **header)
        elif kind == "copilot" and text:
            conversation.turn(identity, [text_block(text)], **header)
        elif kind in ("tool_call_requested", "tool_call_completed"):
            is_known = kind == "tool_call_completed" and progress.begin(call_id)
            if kind == "tool_call_requested":
                progress.ask(call_id)
            if not is_known:
                block = tool_use(call_id, item.get("name"), item.get("arguments"), strict_keys=self.strict_keys)
                conversation.call([*identity, "call"], block, **header)
            result = object_at(item, "result")
            if kind == "tool_call_completed" and result:
                outcome = text_at(result, "type")
                status: ResultStatus = "ok" if outcome in ("success", "") else "error"
                status = "blocked" if outcome in _REFUSED else status
                conversation.result(
                    identity, call_id, text_of(result.get("log")), status=status, tool=text_at(item, "name"), **header
                )


def _speaker(line: dict[str, Json], data: dict[str, Json], progress: SessionProgress) -> dict[str, Any]:
    """Return whose line it is, where it is a sub-agent's."""
    run = (text_at(data, "parentToolCallId") or text_at(line, "agentId"))[:200]
    return {"run_id": run, "agent": progress.agents.get(run) or "sub-agent", "agent_path": ("copilot",)} if run else {}


def _tool_name(call: dict[str, Json]) -> str:
    server, tool = text_at(call, "mcpServerName"), text_at(call, "mcpToolName")
    return text_at(call, "toolName", "name") or (f"{server}-{tool}" if server and tool else tool)


def _add_result(data: dict[str, Json], conversation: Conversation, header: dict[str, Any]) -> None:
    found, error = data.get("result"), data.get("error")
    result = found if isinstance(found, dict) else {}
    output = text_of(result.get("content")) if result else text_of(found)
    output = output or text_of(data.get("stdout")) or text_of(data.get("stderr"))
    why = text_at(error, "message") if isinstance(error, dict) else text_of(error)
    conversation.result(
        data,
        identifier(data.get("toolCallId")),
        output or why,
        status=_status(data, output, error, why),
        tool=_tool_name(data),
        **header,
    )


def _status(data: dict[str, Json], output: str, error: Json, why: str) -> ResultStatus:
    code = text_at(error, "code") if isinstance(error, dict) else ""
    if code in _REFUSED or why.startswith(("Denied", "The user rejected", "Permission denied by")):
        return "blocked"
    exit_code = number_in(object_at(data, "shellExecution").get("exitCode", data.get("exitCode")))
    if exit_code is None and (found := _EXIT_CODE.search(output[-200:])):
        exit_code = float(found[1])
    failed = data.get("success") is False or bool(error) or bool(exit_code)
    return "error" if failed else "ok"
