"""Claude Code's output format ``stream-json``: messages as they are complete, among lines about the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_guard import Event, Json, Record
from stream_guard_formats.files.claude_code import ClaudeCodeDecoder
from stream_guard_formats.reading import as_object, has_fields, text_at

_LINES: Final = ("system", "assistant", "user", "result", "stream_event")
_MESSAGES: Final = ("assistant", "user")


class ClaudeStreamJsonDecoder(ClaudeCodeDecoder):
    """Reads the lines of ``--output-format stream-json``.

    Partial messages say in pieces what a whole message says next, and the last line sums everything up: none of them is
    an event. A line with ``parent_tool_use_id`` is a sub-agent's.
    """

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a line of stream-json."""
        return 0.95 if has_fields(data, "session_id") and data.get("type") in _LINES else 0.0

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the line. Lines about the program itself have none."""
        line = as_object(data, "a line of stream-json")
        if line.get("type") not in _MESSAGES:
            return []
        parent = text_at(line, "parent_tool_use_id")
        session_line = {
            "sessionId": text_at(line, "session_id"),
            "type": line.get("type"),
            "message": line.get("message"),
            "uuid": line.get("uuid"),
            "timestamp": line.get("timestamp"),
            "isSidechain": bool(parent),
            "agentId": parent,
            "isMeta": line.get("isSynthetic") is True,
        }
        return super().read(session_line, record)
