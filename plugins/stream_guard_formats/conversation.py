"""One conversation as it is written down: messages become events with ids that every replay repeats."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from stream_guard import DecodeError, Event, Json, SessionEnd, ToolCall, ToolResult, Turn, UserMessage, parse_arguments
from stream_guard_formats.reading import digest, excerpt

# Ids are remembered, per session and per event: a megabyte of id would be a megabyte of state.
MAX_ID: Final = 512
_MAX_LABEL: Final = 200

Status = Literal["ok", "error", "blocked"]

_encode = msgspec.json.Encoder().encode


class Conversation:
    """Collects the events of one session, in order.

    An event's id is a digest of what it was made from, and how often that came before. So a message that is
    sent again has the id it had, wherever it stands now, and two equal messages are two events.
    """

    def __init__(self, session_id: str, *, labels: dict[str, str] | None = None) -> None:
        check_session_id(session_id)
        self.session_id = session_id
        self.events: list[Event] = []
        self.labels = labels or {}
        self._times: dict[str, int] = {}

    def count_ids(self, times: dict[str, int]) -> None:
        """Go on from how often each id was given before, and keep count there."""
        self._times = times

    def user(self, made_from: Json, text: str, **header: Any) -> None:
        """Add what a person wrote."""
        self.events.append(UserMessage(**self._header("u", made_from, header), text=text))

    def turn(
        self, made_from: Json, content: list[Json], *, extra: dict[str, Json] | None = None, **header: Any
    ) -> None:
        """Add what the model answered; ``extra`` is what is known besides: stop_reason, usage, latency_ms."""
        response: dict[str, Json] = {"content": content}
        if extra:
            response.update({name: value for name, value in extra.items() if value is not None})
        self.events.append(Turn(**self._header("t", made_from, header), response=response))

    def call(self, made_from: Json, block: dict[str, Json], **header: Any) -> None:
        """Add an attempt that stands apart from its turn."""
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
        self, made_from: Json, call_id: str, output: Json, *, status: Status = "ok", tool: str = "", **header: Any
    ) -> None:
        """Add what came of an attempt; ``header`` may hold latency_ms too."""
        self.events.append(
            ToolResult(**self._header("r", made_from, header), call_id=call_id, tool=tool, status=status, output=output)
        )

    def end(self, time: float | None = None) -> None:
        """Add the end of the session, where the source says that nothing follows."""
        self.events.append(
            SessionEnd(session_id=self.session_id, event_id="end", time=time, labels=self.labels, reason="closed")
        )

    def _header(self, sort: str, made_from: Json, header: dict[str, Any]) -> dict[str, Any]:
        event_id = header.pop("event_id", "") or f"{sort}{digest(_encode(made_from))}"
        before = self._times.get(event_id, 0)
        self._times[event_id] = before + 1
        if before:
            event_id = f"{event_id}.{before}"
        return {"session_id": self.session_id, "event_id": event_id, "labels": self.labels, **header}


def check_session_id(session_id: str) -> None:
    """Raise DecodeError for an id that no session can have."""
    if not session_id or len(session_id) > MAX_ID:
        raise DecodeError(
            f"the session's id {excerpt(session_id)} has {len(session_id)} characters; it needs 1 to {MAX_ID}"
        )
    if session_id[0] == "\0":
        raise DecodeError(f"the session's id {excerpt(session_id)} begins with a NUL character; no session's does")


def derived_session(made_from: bytes, *names: str) -> str:
    """Return an id for a recording that brings none: its names, for people, and a digest of its bytes."""
    # Without the space around it: the same recording has a line end in a file and none in a topic.
    return "/".join([*(name[:60] for name in names if name), f"~{digest(made_from.strip())}"])


def label(text: str) -> str:
    """Return a label's value, cut to what labels are for."""
    return text[:_MAX_LABEL]


def text_block(text: str) -> dict[str, Json]:
    """Return the block for something that was said."""
    return {"type": "text", "text": text}


def tool_use(call_id: Json, name: Json, arguments: Json, *, strict_keys: bool) -> dict[str, Json]:
    """Return the block for an attempt; arguments that are JSON in a text are read, what is not JSON stays a text."""
    if isinstance(arguments, str):
        arguments, _ = parse_arguments(arguments, strict_keys=strict_keys)
    return {
        "type": "tool_use",
        "id": identifier(call_id),
        "name": name if isinstance(name, str) else "",
        "input": {} if arguments is None else arguments,
    }


def identifier(found: Json) -> str:
    """Return a call's id as text; empty where there is none."""
    return str(found)[:MAX_ID] if isinstance(found, str | int) and not isinstance(found, bool) else ""


def text_of(content: Json) -> str:
    """Return the text of a message: the text itself, or the text of its blocks, joined with a line end."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ""
    said = (one if isinstance(one, str) else _block_text(one) for one in content)
    return "\n".join(text for text in said if text)


def _block_text(block: Json) -> str:
    if not isinstance(block, dict):
        return ""
    for field in ("text", "content", "refusal"):
        if isinstance(found := block.get(field), str):
            return found
    return ""
