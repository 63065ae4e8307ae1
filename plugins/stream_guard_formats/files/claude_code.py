"""Claude Code's session files: one line for each content block, sub-agents inside progress lines."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from copy import copy
from typing import Any, Final, Self

from stream_guard import Event, Json, JsonDecoder, Memory, Record
from stream_guard_formats.chat.anthropic_messages import add_answer_results, add_user, answer_blocks
from stream_guard_formats.conversation import Conversation, ResultStatus, label
from stream_guard_formats.reading import SkippedLines, as_object, has_fields, object_at, seconds, text_at

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
_LINES: Final = frozenset(
    (
        *("user", "assistant", "system", "progress", *_LINES_WITHOUT_SESSION, "custom-title", "ai-title", "agent-name"),
        *("last-prompt", "attachment", "permission-mode", "tag", "mode", "content-replacement", "agent-color"),
        *("agent-setting", "worktree-state", "file-history-delta", "saved_hook_context", "result", "stream_event"),
    )
)
_IDS: Final = ("id", "tool_use_id", "name", "input")
_COPIES: Final = 65536  # lines that are remembered, to know them when they come again under another uuid
_SESSIONS: Final = 4096


class ClaudeCodeDecoder(JsonDecoder):
    """Reads the lines of session files, of one session or of many merged.

    A message comes in several lines. Its first line with a text or a call is the turn. A call in a later line is a
    tool call of that turn. A text in a later line is a turn of its own. No line is held back, so nothing is lost when a
    run stops between two lines. The first lines of the last 4096 messages are remembered, so that a line that is read
    again gives the same events.

    A session that is resumed repeats lines under new uuids: they count once. Where it has a new id too, and begins with
    such lines, it goes on in the session that they came from; ``trace_id`` is then its own id.
    """

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a line of a session file."""
        if has_fields(data, "sessionId", "type"):
            return 0.95 if "uuid" in data else 0.8
        if _is_list_of_sessions(data) or (isinstance(data, dict) and data.get("type") in _LINES_WITHOUT_SESSION):
            return 0.8
        # What stands beside the file of a sub-agent.
        return 0.6 if has_fields(data, "agentType") and not data.keys() & {"type", "messages", "steps"} else 0.0

    def __init__(self, *, strict_keys: bool = True) -> None:
        super().__init__(strict_keys=strict_keys)
        self.skipped = SkippedLines()
        self._first_lines: OrderedDict[tuple[str, str], tuple[str, int]] = OrderedDict()
        self._copies: OrderedDict[int, tuple[str, str]] = OrderedDict()  # the uuid and the session of the first
        self._begun: OrderedDict[str, None] = OrderedDict()  # sessions with lines of their own
        self._resumed: dict[str, str] = {}  # the sessions that others go on with
        self._memory: Memory | None = None

    def remember(self, memory: Memory) -> Self:
        """Return a copy that keeps in ``memory`` which sessions go on with others. It holds nothing back."""
        holding = copy(self)
        holding._memory = memory  # noqa: SLF001  # of its own class
        holding._resumed = {  # noqa: SLF001
            name: blob.decode("utf-8", "surrogatepass")
            for name in memory.rows()
            if (blob := memory.get(name)) is not None
        }
        return holding

    def finish(self) -> Sequence[Event]:
        """Log which lines were skipped. No further record will come."""
        self.skipped.log()
        return ()

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the line. Lines about the program itself have none."""
        line = as_object(data, "a line of a session file")
        own_id = text_at(line, "sessionId")
        if "type" in line and str(line["type"]) not in _LINES:
            self.skipped.add(record, str(line["type"]))
        if not own_id:
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
        if self._is_copy(own_id, line, message, record):
            return []
        session_id = self._resumed.get(own_id, own_id)
        if session_id != own_id:
            header["trace_id"] = own_id
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

    def _is_copy(self, own_id: str, line: dict[str, Json], message: dict[str, Json], record: Record) -> bool:
        """Whether a line repeats another one under a new uuid; a session that begins so goes on with the other's."""
        key = _copied_part(line, message)
        if not key:
            return False
        uuid = text_at(line, "uuid") or f"{record.origin} {record.position}"
        session_id = self._resumed.get(own_id, own_id)
        first_uuid, first_session = self._copies.setdefault(key, (uuid, session_id))
        if len(self._copies) > _COPIES:
            self._copies.popitem(last=False)
        if first_uuid == uuid:
            self._begun.setdefault(own_id)
            if len(self._begun) > _SESSIONS:
                self._begun.popitem(last=False)
            return False
        if first_session != session_id and own_id not in self._begun and len(self._resumed) < _SESSIONS:
            self._resumed[own_id] = first_session
            if self._memory is not None:
                self._memory.put(own_id, first_session.encode("utf-8", "surrogatepass"), 0.0)
        return True

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


def _copied_part(line: dict[str, Json], message: dict[str, Json]) -> int:
    """Return a hash of what a copy of a line has in common with it: ids of calls, or time and texts; 0 for neither."""
    content = message.get("content")
    if isinstance(content, str):
        texts: tuple[str, ...] = (content,)
    else:
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        # With what is called: an id that comes again with another command is no copy, and nothing is hidden by it.
        ids = [
            tuple(str(block.get(name)) for name in _IDS) for block in blocks if "id" in block or "tool_use_id" in block
        ]
        if ids:
            return hash(tuple(ids))
        texts = tuple(text for block in blocks if isinstance(text := block.get("text"), str))
    if not any(texts) or "timestamp" not in line:
        return 0
    return hash((str(line["timestamp"]), str(message.get("id")), str(line.get("type")), texts))


def _is_list_of_sessions(data: Json) -> bool:
    """Whether a value is the list that Claude Code keeps of the sessions in a folder."""
    entries = data.get("entries") if isinstance(data, dict) else None
    return isinstance(entries, list) and bool(entries) and has_fields(entries[0], "sessionId", "fullPath")


def _status(block: dict[str, Json], text: str) -> ResultStatus:
    if block.get("is_error") is not True:
        return "ok"
    return "blocked" if text.startswith(_REFUSED) else "error"


# Claude Code's output format ``stream-json``: messages as they are complete, among lines about the program.


_STREAM_LINES: Final = ("system", "assistant", "user", "result", "stream_event")
_STREAM_MESSAGES: Final = ("assistant", "user")


class ClaudeStreamJsonDecoder(ClaudeCodeDecoder):
    """Reads the lines of ``--output-format stream-json``.

    Partial messages say in pieces what a whole message says next, and the last line sums everything up: none of them is
    an event. A line with ``parent_tool_use_id`` is a sub-agent's.
    """

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a line of stream-json."""
        return 0.95 if has_fields(data, "session_id") and data.get("type") in _STREAM_LINES else 0.0

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the line. Lines about the program itself have none."""
        line = as_object(data, "a line of stream-json")
        if line.get("type") not in _STREAM_MESSAGES:
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
