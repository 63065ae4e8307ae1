"""Session files of pi, and of agents made from it such as omp: a header, then one entry of a tree to a line."""

from __future__ import annotations

from typing import Any, Final

from stream_guard import Json, Record
from stream_guard_formats.conversation import Conversation, identifier, label, text_block, text_of, tool_use
from stream_guard_formats.files.session_files import (
    SessionFileDecoder,
    SessionProgress,
    at_place,
    moment,
    named_session,
)
from stream_guard_formats.reading import object_at, text_at

# What `pi --mode json` prints is one message, again and again until it ends.
_MESSAGES: Final = ("message", "message_end")
_ABOUT_THE_PROGRAM: Final = frozenset(
    (
        *("session", "model_change", "thinking_level_change", "compaction", "branch_summary", "custom", "label"),
        *("custom_message", "session_info", "message_start", "message_update", "turn_start", "turn_end"),
        *("agent_start", "agent_end", "tool_execution_start", "tool_execution_update", "tool_execution_end"),
        *("auto_compaction_start", "auto_compaction_end", "auto_retry_start", "auto_retry_end"),
    )
)
# Commands that a person ran, texts of extensions, and summaries.
_SILENT: Final = frozenset(
    ("bashExecution", "pythonExecution", "custom", "hookMessage", "branchSummary", "compactionSummary", "system")
)


class PiDecoder(SessionFileDecoder):
    """Reads the lines of a session file, also of several branches of one session."""

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a line of a session file."""
        if not isinstance(data, dict) or "sessionId" in data or "uuid" in data:
            return 0.0
        kind = data.get("type")
        if kind in _MESSAGES:
            return 0.9 if isinstance(object_at(data, "message").get("role"), str) else 0.0
        if kind == "session":
            return 0.9 if "cwd" in data and "id" in data else 0.0
        is_entry = "parentId" in data and "id" in data and "timestamp" in data
        return 0.85 if is_entry and isinstance(kind, str) and kind in _ABOUT_THE_PROGRAM else 0.0

    def learn(self, line: dict[str, Json], progress: SessionProgress) -> None:
        """Note whose the file is, and the model."""
        kind = line.get("type")
        if kind == "session":
            named_session(progress, text_at(line, "id"))
        if kind in ("session", "model_change"):
            progress.model = text_at(line, "modelId", "model") or progress.model

    def tell(
        self, line: dict[str, Json], conversation: Conversation, progress: SessionProgress, record: Record
    ) -> None:
        """Add the event of a message."""
        del progress
        kind = str(line.get("type"))
        if kind not in _MESSAGES:
            if kind not in _ABOUT_THE_PROGRAM:
                self.skipped.add(record, kind)
            return
        message = object_at(line, "message")
        role = message.get("role")
        time = moment(line.get("timestamp"))
        header: dict[str, Any] = {"time": moment(message.get("timestamp")) if time is None else time}
        header |= at_place(line.get("id"), "", record)
        if role == "user":
            conversation.user(message, text_of(message.get("content")), **header)
        elif role == "assistant":
            self._answer(conversation, message, header)
        elif role in ("toolResult", "tool"):
            conversation.result(
                message,
                identifier(message.get("toolCallId", message.get("tool_call_id"))),
                text_of(message.get("content")),
                status="error" if message.get("isError") is True else "ok",
                tool=text_at(message, "toolName"),
                **header,
            )
        elif str(role) not in _SILENT:
            self.skipped.add(record, f"message of {role}")

    def _answer(self, conversation: Conversation, message: dict[str, Json], header: dict[str, Any]) -> None:
        blocks: list[Json] = []
        content = message.get("content")
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, dict) and part.get("type") in ("toolCall", "tool_use", "tool_call"):
                args = part.get("arguments", part.get("input"))
                blocks.append(tool_use(part.get("id"), part.get("name"), args, strict_keys=self.strict_keys))
            elif not isinstance(part, dict) or part.get("type") == "text":
                blocks += [text_block(text)] if (text := text_of(part)) else []
        if model := text_at(message, "model"):
            header["labels"] = {"model": label(model)}
        extra = {"usage": message.get("usage"), "stop_reason": message.get("stopReason")}
        conversation.turn(message, blocks, extra=extra, **header)
