"""Claude Code's session files: one line for each content block, sub-agents inside progress lines."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from stream_guard import Event, Json, JsonDecoder, Record
from stream_guard_formats.anthropic_messages import add_user, said_blocks
from stream_guard_formats.conversation import Conversation, Status, label
from stream_guard_formats.reading import as_object, object_at, seconds, text_at

# Lines of one message follow each other closely, so few messages have to be remembered.
_MESSAGES: Final = 4096
# How a call that a person refused is answered; nothing ran.
_REFUSED: Final = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action",
    "Permission to use ",
)
_MAX_AGENT: Final = 200


class ClaudeCodeDecoder(JsonDecoder):
    """Reads the lines of session files, of one session or of many merged.

    A message comes in several lines. Its first line that says or calls something is the turn, a later call is an
    attempt of that turn, and a later text is a turn of its own: lines are not held back, so nothing is lost when
    a run stops between them. The last 4096 messages are remembered, with the line that began their turn, so that
    reading a line again gives the same events.
    """

    def __init__(self, *, strict_keys: bool = True) -> None:
        super().__init__(strict_keys=strict_keys)
        self._begun: OrderedDict[tuple[str, str], tuple[str, int]] = OrderedDict()

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the line's events; lines about the program itself have none."""
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
            # A sub-agent is told what to do by its parent, in the user's role; other lines the program wrote itself.
            person = not header.get("run_id") and not line.get("isMeta") and not line.get("isCompactSummary")
            add_user(conversation, message.get("content"), judge=_status, person=person, **header)
        return conversation.events

    def _answer(
        self, conversation: Conversation, message: dict[str, Json], record: Record, header: dict[str, Any]
    ) -> None:
        content = said_blocks(message.get("content"), strict_keys=self.strict_keys)
        if not content:
            return
        key = (conversation.session_id, text_at(message, "id") or header["event_id"])
        place = (record.origin, record.position)
        begun = self._begun.setdefault(key, place)
        if len(self._begun) > _MESSAGES:
            self._begun.popitem(last=False)
        if begun == place or any(block["type"] == "text" for block in content):
            extra = {"stop_reason": message.get("stop_reason")}
            if begun == place:
                extra["usage"] = message.get("usage")  # repeated on every line of the message: counted once
            conversation.turn(message, content, extra=extra, **header)
            return
        for block in content:
            conversation.call(message, block, **header)


def _status(block: dict[str, Json], text: str) -> Status:
    if block.get("is_error") is not True:
        return "ok"
    return "blocked" if text.startswith(_REFUSED) else "error"
