"""Claude Code's session files: one line for each content block, sub-agents inside progress lines."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from stream_guard import Event, Json, JsonDecoder, Record
from stream_guard_formats.chat.anthropic_messages import add_answer_results, add_user, answer_blocks
from stream_guard_formats.conversation import Conversation, ResultStatus, label
from stream_guard_formats.reading import as_object, has_fields, object_at, seconds, text_at

# Lines of one message follow each other closely, so few messages have to be remembered.
_MESSAGES: Final = 4096
# How results begin of calls that a person refused. The tool did not run.
_REFUSED: Final = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action",
    "Permission to use ",
    "Claude requested permissions to ",
)
_MAX_AGENT: Final = 200
_LINES_WITHOUT_SESSION: Final = ("summary", "file-history-snapshot", "queue-operation", "pr-link")


class ClaudeCodeDecoder(JsonDecoder):
    """Reads the lines of session files, of one session or of many merged.

    A message comes in several lines. Its first line with a text or a call is the turn. A call in a later line is a
    tool call of that turn. A text in a later line is a turn of its own. No line is held back, so nothing is lost when a
    run stops between two lines. The first lines of the last 4096 messages are remembered, so that a line that is read
    again gives the same events.
    """

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a line of a session file."""
        if has_fields(data, "sessionId", "type"):
            return 0.95 if "uuid" in data else 0.8
        return 0.8 if isinstance(data, dict) and data.get("type") in _LINES_WITHOUT_SESSION else 0.0

    def __init__(self, *, strict_keys: bool = True) -> None:
        super().__init__(strict_keys=strict_keys)
        self._first_lines: OrderedDict[tuple[str, str], tuple[str, int]] = OrderedDict()

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the line. Lines about the program itself have none."""
        line = as_object(data, "a line of a session file")
        session_id = text_at(line, "sessionId")
        if not session_id:
            return []  # snapshots and summaries stand outside any session
        header: dict[str, Any] = {"time": seconds(line.get("timestamp"))}
        if line.get("type") == "progress":
            progress = object_at(line, "data")
            if progress.get("type") != "agent_progress":
                return []
            header["run_id"] = text_at(progress, "agentId")[:_MAX_AGENT]
            header["agent"] = "sub-agent"
            header["agent_path"] = ("claude-code",)
            line = line | object_at(progress, "message")
        elif line.get("isSidechain") is True and (agent := text_at(line, "agentId")):
            header |= {"run_id": agent[:_MAX_AGENT], "agent": "sub-agent", "agent_path": ("claude-code",)}
        message = object_at(line, "message")
        model = text_at(message, "model")
        conversation = Conversation(session_id, labels={"model": label(model)} if model else None)
        header["event_id"] = text_at(line, "uuid")[:_MAX_AGENT]
        if line.get("type") == "assistant":
            self._answer(conversation, message, record, header)
        elif line.get("type") == "user":
            # A sub-agent's parent writes in the user's role. The program itself writes meta lines and summaries.
            person = not header.get("run_id") and not line.get("isMeta") and not line.get("isCompactSummary")
            add_user(conversation, message.get("content"), read_status=_status, person=person, **header)
        return conversation.events

    def _answer(
        self, conversation: Conversation, message: dict[str, Json], record: Record, header: dict[str, Any]
    ) -> None:
        written = message.get("content")
        content = answer_blocks(written, strict_keys=self.strict_keys)
        if content:
            self._add_content(conversation, content, message, record, header)
        if isinstance(written, list) and len(written) > len(content):
            add_answer_results(conversation, written, **header)

    def _add_content(
        self,
        conversation: Conversation,
        content: list[Json],
        message: dict[str, Json],
        record: Record,
        header: dict[str, Any],
    ) -> None:
        key = (conversation.session_id, text_at(message, "id") or header["event_id"])
        place = (record.origin, record.position)
        is_first = self._first_lines.setdefault(key, place) == place
        if len(self._first_lines) > _MESSAGES:
            self._first_lines.popitem(last=False)
        if is_first or any(block["type"] == "text" for block in content):
            extra = {"stop_reason": message.get("stop_reason")}
            if is_first:
                extra["usage"] = message.get("usage")  # repeated on every line of the message: counted once
            conversation.turn(message, content, extra=extra, **header)
            return
        for block in content:
            conversation.call(message, block, **header)


def _status(block: dict[str, Json], text: str) -> ResultStatus:
    if block.get("is_error") is not True:
        return "ok"
    return "blocked" if text.startswith(_REFUSED) else "error"
