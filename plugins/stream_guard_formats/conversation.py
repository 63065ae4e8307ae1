"""The events of one session, built message by message, with ids that are the same in every replay."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from stream_guard import (
    DecodeError,
    Event,
    GateDecision,
    Json,
    SessionEnd,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
    parse_arguments,
)
from stream_guard_formats.reading import digest, excerpt
from stream_guard_formats.usage import read_usage

# Ids are remembered, per session and per event: a megabyte of id would be a megabyte of state.
MAX_ID: Final = 512
_MAX_LABEL: Final = 200

ResultStatus = Literal["ok", "error", "blocked"]
GateAction = Literal["allow", "pause", "block", "terminate_session"]

_encode = msgspec.json.Encoder().encode


class Conversation:
    """Collects the events of one session, in order.

    The id of an event is a digest of its source, ``made_from``, and a number if that source came before. A message
    keeps its id when a later record sends it again at another place, and two equal messages have two ids.
    """

    def __init__(self, session_id: str, *, labels: dict[str, str] | None = None) -> None:
        check_session_id(session_id)
        self.session_id = session_id
        self.events: list[Event] = []
        self.labels = labels or {}
        self._ids: dict[str, int] = {}  # how often each was given

    def count_ids(self, ids: dict[str, int]) -> None:
        """Continue the counts of ids that an earlier conversation with this session left, and update them in place."""
        self._ids = ids

    def user(self, made_from: Json, text: str, **header: Any) -> None:
        """Add a message of the user."""
        self.events.append(UserMessage(**self._header("u", made_from, header), text=text))

    def turn(
        self, made_from: Json, content: list[Json], *, extra: dict[str, Json] | None = None, **header: Any
    ) -> None:
        """Add an answer of the model. ``extra`` may hold stop_reason, usage and latency_ms."""
        response: dict[str, Json] = {"content": content}
        for name, value in extra.items() if extra else ():
            if value is not None and (kept := read_usage(value) if name == "usage" else value) is not None:
                response[name] = kept
        self.events.append(Turn(**self._header("t", made_from, header), response=response))

    def call(self, made_from: Json, block: dict[str, Json], **header: Any) -> None:
        """Add a tool call that is not part of a turn."""
        args, parse_error = block["input"], isinstance(block["input"], str)
        self.events.append(
            ToolCall(
                **self._header("c", made_from, header),
                tool=block["name"],
                call_id=block["id"],
                args=args,
                parse_error=parse_error,
            )
        )

    def result(
        self, made_from: Json, call_id: str, output: Json, *, status: ResultStatus = "ok", tool: str = "", **header: Any
    ) -> None:
        """Add the result of a tool call. ``header`` may hold latency_ms."""
        self.events.append(
            ToolResult(**self._header("r", made_from, header), call_id=call_id, tool=tool, status=status, output=output)
        )

    def decision(
        self, made_from: Json, action: GateAction, call_id: str, tool: str, rule_ids: tuple[str, ...], **header: Any
    ) -> None:
        """Add what another guard, or a person, answered to an attempt."""
        fields = self._header("d", made_from, header)
        self.events.append(GateDecision(**fields, action=action, call_id=call_id, tool=tool, rule_ids=rule_ids))

    def end(self, time: float | None = None) -> None:
        """Add the end of the session. Only sources that mark the end of a session call this."""
        self.events.append(
            SessionEnd(session_id=self.session_id, event_id="end", time=time, labels=self.labels, reason="closed")
        )

    def _header(self, sort: str, made_from: Json, header: dict[str, Any]) -> dict[str, Any]:
        event_id = header.pop("event_id", "") or f"{sort}{digest(_encode(made_from))}"
        before = self._ids.get(event_id, 0)
        self._ids[event_id] = before + 1
        if before:
            event_id = f"{event_id}.{before}"
        return {"session_id": self.session_id, "event_id": event_id, "labels": self.labels, **header}


def check_session_id(session_id: str) -> None:
    """Raise DecodeError if no session can have this id."""
    if not session_id or len(session_id) > MAX_ID:
        raise DecodeError(
            f"the session's id {excerpt(session_id)} has {len(session_id)} characters; it needs 1 to {MAX_ID}"
        )
    if session_id[0] == "\0":
        raise DecodeError(f"the session's id {excerpt(session_id)} begins with a NUL character; no session's does")


def derived_session(made_from: bytes, *names: str) -> str:
    """Return a session id for a recording without one: its names, for people, and a digest of its bytes."""
    # Stripped: the same recording has a line end in a file and none in a topic.
    return "/".join([*(name[:60] for name in names if name), f"~{digest(made_from.strip())}"])


def label(text: str) -> str:
    """Return a text as the value of a label, cut to the longest that is allowed."""
    return text[:_MAX_LABEL]


def text_block(text: str) -> dict[str, Json]:
    """Return a text block."""
    return {"type": "text", "text": text}


def tool_use(call_id: Json, name: Json, arguments: Json, *, strict_keys: bool) -> dict[str, Json]:
    """Return a tool-use block. Arguments that are JSON in a text are parsed; other texts stay as they are."""
    if isinstance(arguments, str):
        arguments, _ = parse_arguments(arguments, strict_keys=strict_keys)
    return {
        "type": "tool_use",
        "id": identifier(call_id),
        "name": name if isinstance(name, str) else "",
        "input": {} if arguments is None else arguments,
    }


def identifier(value: Json) -> str:
    """Return the id of a call as text, or an empty text if the value is no id."""
    if type(value) is str:
        return value[:MAX_ID]
    return str(value)[:MAX_ID] if isinstance(value, str | int) and not isinstance(value, bool) else ""


def text_of(content: Json) -> str:
    """Return the text of a message: the text itself, or the text of its blocks, joined with a line end."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ""
    if len(content) == 1 and type(content[0]) is dict:
        return _block_text(content[0])
    texts = (block if isinstance(block, str) else _block_text(block) for block in content)
    return "\n".join(text for text in texts if text)


def _block_text(block: Json) -> str:
    if not isinstance(block, dict):
        return ""
    for field in ("text", "content", "refusal"):
        if isinstance(text := block.get(field), str):
            return text
    return ""
