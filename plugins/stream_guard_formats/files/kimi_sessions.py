"""Session files of the Kimi CLI: its wire in both generations, and the messages of its context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from stream_guard import Event, Json, Record, parse_arguments
from stream_guard_formats.conversation import (
    Conversation,
    ResultStatus,
    identifier,
    text_block,
    text_of,
    tool_use,
)
from stream_guard_formats.files.session_files import SessionFileDecoder, SessionProgress, moment
from stream_guard_formats.reading import digest, object_at, objects_in, text_at

_ROLES: Final = ("user", "assistant", "tool")
_REJECTED: Final = ("The tool call is rejected", "Rejected by user", "The user rejected")
_SILENT: Final = frozenset(
    (
        *("StepBegin", "StepInterrupted", "StatusUpdate", "TurnEnd", "CompactionBegin", "CompactionEnd", "MCPStatus"),
        *("ApprovalRequest", "ApprovalResponse", "ApprovalRequestResolved", "HookTriggered", "HookResolved"),
        *("SteerInput", "Notification", "metadata", "step.begin", "step.end", "turn.prompt", "turn.cancel"),
        *("config.update", "usage.record", "llm.request", "_checkpoint", "_usage", "_system_prompt", "system"),
    )
)


_MESSAGE: Final = frozenset(("role", "content", "name", "tool_calls", "tool_call_id", "partial", "reasoning_content"))
_MOST_TEXTS: Final = 16384
_MOST_CALLS: Final = 65536
_MOST_TIMES: Final = 1000  # that one id is looked up; a file may give it any number of times
_MOST_OPEN: Final = 1024  # calls that wait
_MOST_PIECES: Final = 1024  # of one call: all of them are read again with each


class _Said(NamedTuple):
    """What one line tells, whatever the generation."""

    sort: str  # user, text, call, part, result; anything else is about the program
    text: str = ""
    call_id: str = ""
    tool: str = ""
    args: Json = None
    status: ResultStatus = "ok"
    run: str = ""  # a sub-agent's
    agent: str = ""


class _OpenCall(NamedTuple):
    """A call that is to be told, with what its event is to have."""

    said: _Said
    session_id: str
    header: dict[str, Any]
    pieces: int = 0

    def longer(self, piece: str) -> _OpenCall:
        """Return the call with more of its arguments."""
        return self._replace(said=self.said._replace(args=f"{self.said.args}{piece}"), pieces=self.pieces + 1)


class KimiDecoder(SessionFileDecoder):
    """Reads ``wire.jsonl`` and ``context.jsonl``. What both files of a session tell is told once.

    A call whose arguments come in pieces is told when they are complete.
    """

    def __init__(self, *, strict_keys: bool = True) -> None:
        super().__init__(strict_keys=strict_keys)
        self._pieces: dict[str, _OpenCall] = {}  # the call of a file whose arguments are not complete
        self._places: dict[tuple[str, str], list[int]] = {}  # where a file tells of a call, by the call's id
        self._told: dict[str, str] = {}  # the file that told of a call first
        self._texts: dict[str, int] = {}  # texts that one file of a session had; the other repeats them

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a line of either file."""
        if not isinstance(data, dict):
            return 0.0
        message = object_at(data, "message")
        if "timestamp" in data and isinstance(message.get("type"), str) and isinstance(message.get("payload"), dict):
            return 0.95
        kind = data.get("type")
        if isinstance(kind, str) and kind.startswith(("context.append_", "context.apply_", "turn.prompt")):
            return 0.95
        if kind == "metadata" and "protocol_version" in data:
            return 0.95
        role = data.get("role")
        if isinstance(role, str) and role.startswith("_"):
            return 0.95
        is_message = role in _ROLES and "content" in data and "messages" not in data
        return 0.6 if is_message and not data.keys() - _MESSAGE else 0.0

    def session_of(self, record: Record) -> str:
        """Return the session of a file: the folder that its files, or those of its agents, stand in."""
        path = PurePath(record.origin)
        folder = path.parent.parent.parent if path.parent.parent.name == "agents" else path.parent
        is_session = path.name.startswith(("wire", "context")) and folder.name
        return folder.name[:200] if is_session else super().session_of(record)

    def tell(
        self, line: dict[str, Json], conversation: Conversation, progress: SessionProgress, record: Record
    ) -> None:
        """Add the events of a line."""
        time = moment(line.get("timestamp", line.get("time")))
        said = _read_line(line)
        path = PurePath(record.origin)
        is_inner = path.parent.parent.name == "agents" and path.parent.name != "main"
        if is_inner:
            said = [one._replace(run=path.parent.name, agent=one.agent or "sub-agent") for one in said]
        # A session has several files: a place in one of them is none in another.
        file = "" if path.name == "wire.jsonl" and not is_inner else f"{path.parent.name if is_inner else path.stem}:"
        for number, one in enumerate(said):
            header: dict[str, Any] = {"time": time, "event_id": f"{file[-100:]}{number}.{record.position}"}
            if one.run:
                header |= {"run_id": one.run[:200], "agent": one.agent[:200], "agent_path": ("kimi",)}
            self._add(one, conversation, progress, record, header)

    def _add(
        self,
        said: _Said,
        conversation: Conversation,
        progress: SessionProgress,
        record: Record,
        header: dict[str, Any],
    ) -> None:
        if said.sort in ("user", "text"):
            if said.text and not self._is_repeated(said, progress, record):
                _add_text(said, conversation, header)
        elif said.sort == "call":
            if self._is_first(f"c {said.run} {said.call_id}", conversation, record):
                self._call(_OpenCall(said, conversation.session_id, header), conversation, record)
        elif said.sort in ("part", "result"):
            before = self._pieces.pop(record.origin, None)
            if before is not None and said.sort == "part":
                self._call(before.longer(text_of(said.args)), conversation, record)
            elif before is not None:
                self._tell_call(before, conversation)
            if said.sort == "result" and self._is_first(f"r {said.run} {said.call_id}", conversation, record):
                conversation.result(["r"], said.call_id, said.text, status=said.status, tool=said.tool, **header)
        elif said.sort not in _SILENT:
            self.skipped.add(record, said.sort)

    def _call(self, call: _OpenCall, conversation: Conversation, record: Record) -> None:
        """Tell of a call, or let it wait for the rest of its arguments."""
        args = call.said.args
        broken = isinstance(args, str) and parse_arguments(args, strict_keys=self.strict_keys)[1]
        may_wait = self._memory is not None and len(self._pieces) < _MOST_OPEN and call.pieces < _MOST_PIECES
        if may_wait and (broken or args == ""):
            self._pieces[record.origin] = call
        else:
            self._tell_call(call, conversation)

    def _tell_call(self, call: _OpenCall, conversation: Conversation) -> None:
        said = call.said
        block = tool_use(said.call_id, said.tool, said.args, strict_keys=self.strict_keys)
        conversation.call(["c"], block, **call.header)

    def finish(self) -> Sequence[Event]:
        """Return the calls whose arguments never became complete. No further record will come."""
        super().finish()
        events: list[Event] = []
        for call in self._pieces.values():
            conversation = Conversation(call.session_id)
            self._tell_call(call, conversation)
            events += conversation.events
        self._pieces.clear()
        return events

    def _is_first(self, name: str, conversation: Conversation, record: Record) -> bool:
        """Whether no other file of the session told of this before. A file may give an id again, to another call."""
        places = self._places.setdefault((record.origin, name), [])
        if record.position not in places:
            if len(places) >= _MOST_TIMES:
                return True
            places.append(record.position)
        key = f"{conversation.session_id} {name} {places.index(record.position)}"
        first = self._told.setdefault(key, record.origin)
        while len(self._places) > _MOST_CALLS:
            del self._places[next(iter(self._places))]
        while len(self._told) > _MOST_CALLS:
            del self._told[next(iter(self._told))]
        return first == record.origin

    def _is_repeated(self, said: _Said, progress: SessionProgress, record: Record) -> bool:
        """Whether the other file of the session had the text before. Each file has every text once."""
        is_context = "context" in PurePath(record.origin).name
        text = digest(said.text.encode("utf-8", "surrogatepass"))
        mine, other = (f"{kind} {progress.session_id} {said.sort} {text}" for kind in (is_context, not is_context))
        if self._texts.get(other):
            self._texts[other] -= 1
            return True
        self._texts[mine] = self._texts.pop(mine, 0) + 1
        while len(self._texts) > _MOST_TEXTS:
            del self._texts[next(iter(self._texts))]
        return False


def _add_text(said: _Said, conversation: Conversation, header: dict[str, Any]) -> None:
    if said.sort == "text":
        conversation.turn(["t", said.text], [text_block(said.text)], **header)
    elif not said.run:  # a sub-agent's parent writes in the user's role
        conversation.user(["u", said.text], said.text, **header)


def _read_line(line: dict[str, Json]) -> Sequence[_Said]:
    message, kind = object_at(line, "message"), text_at(line, "type")
    if isinstance(message.get("payload"), dict):
        return [_read_wire(text_at(message, "type"), message["payload"])]
    if kind == "context.append_message":
        return _read_message(message)
    if kind == "context.append_loop_event":
        return [_read_loop(object_at(line, "event"))]
    if isinstance(line.get("role"), str):
        return _read_message(line)
    if isinstance(line.get("payload"), dict):
        return [_read_wire(kind, line["payload"])]
    return [_Said(kind)]


def _read_wire(kind: str, payload: dict[str, Json]) -> _Said:
    if kind == "TurnBegin":
        return _Said("user", text_of(payload.get("user_input")))
    if kind in ("ContentPart", "TextPart"):
        return _Said("text", text_of(payload) if payload.get("type") == "text" else "")
    if kind in ("ToolCall", "ToolCallRequest"):
        return _call(payload)
    if kind == "ToolResult":
        value = payload.get("return_value", payload.get("result"))
        return _result(identifier(payload.get("tool_call_id")), value)
    if kind == "SubagentEvent":
        event = object_at(payload, "event")
        inner = _read_wire(text_at(event, "type"), object_at(event, "payload"))
        run = text_at(payload, "agent_id", "task_tool_call_id", "parent_tool_call_id")
        return inner._replace(run=run or "sub-agent", agent=text_at(payload, "subagent_type") or "sub-agent")
    return _Said("part", args=text_at(payload, "arguments_part")) if kind == "ToolCallPart" else _Said(kind)


def _read_loop(event: dict[str, Json]) -> _Said:
    kind, call_id = text_at(event, "type"), identifier(event.get("toolCallId"))
    if kind == "content.part":
        part = object_at(event, "part")
        return _Said("text", text_of(part) if part.get("type") == "text" else "")
    if kind == "tool.call":
        return _Said("call", call_id=call_id, tool=text_at(event, "name"), args=event.get("args"))
    return _result(call_id, event.get("result")) if kind == "tool.result" else _Said(kind)


def _read_message(message: dict[str, Json]) -> Sequence[_Said]:
    role, text = text_at(message, "role"), text_of(message.get("content"))
    if role == "user":
        origin = object_at(message, "origin")
        return [_Said("user", text)] if origin.get("kind", "user") == "user" else [_Said("system")]
    if role == "tool":
        call_id = identifier(message.get("tool_call_id", message.get("toolCallId")))
        return [_Said("result", text, call_id, status="error" if text.startswith("<system>ERROR") else "ok")]
    if role != "assistant":
        return [_Said(role)]
    calls = [*objects_in(message, "tool_calls", "calls"), *objects_in(message, "toolCalls", "calls")]
    said = [_Said("text", text)]
    return said + [_call(call) for call in calls]


def _call(call: dict[str, Json]) -> _Said:
    function = object_at(call, "function") or call
    args = function.get("arguments", function.get("args"))
    return _Said("call", call_id=identifier(call.get("id")), tool=text_at(function, "name"), args=args)


def _result(call_id: str, value: Json) -> _Said:
    result = value if isinstance(value, dict) else {}
    output = text_of(result.get("output", result.get("content"))) if result else text_of(value)
    message = text_at(result, "message")
    failed = result.get("is_error") is True or result.get("isError") is True
    status: ResultStatus = "error" if failed else "ok"
    if failed and (output or message).startswith(_REJECTED):
        status = "blocked"
    return _Said("result", output or message, call_id, status=status)
