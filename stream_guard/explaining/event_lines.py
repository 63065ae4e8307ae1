"""One line for each event: who did what, short, without secrets, and unable to act on whoever shows it."""

from __future__ import annotations

import json
from typing import Final

from stream_guard.judge.model import Event, GateDecision, Json, SessionEnd, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.redaction import redact
from stream_guard.reports.safe import excerpt, visible

_MOST_ARGUMENTS: Final = 6
_MOST_VALUE: Final = 60
_ENDS: Final = {
    "closed": "the session ended",
    "idle": "the session was silent too long",
    "end_of_input": "the recording ended",
}


def describe_event(event: Event) -> str:
    """Return what an event says, on one line."""
    match event:
        case UserMessage():
            return f"user: {excerpt(event.text)}" if event.text else "user: (no text in the record)"
        case Turn():
            return _turn(event)
        case ToolCall():
            return f"call {visible(event.tool)}({_arguments(event.args)})"
        case GateDecision():
            rules = f" by {visible(', '.join(event.rule_ids))}" if event.rule_ids else ""
            return f"gate: {event.action} {visible(event.tool)}".rstrip() + rules
        case ToolResult():
            output = "" if event.output is None else f": {describe_value(event.output, 2 * _MOST_VALUE)}"
            return f"result of {visible(event.tool) or 'a call'}, {event.status}{output}"
        case SessionEnd():
            return _ENDS[event.reason]


def tool_of(event: Event) -> str:
    """Return the tool that an event is about, or nothing."""
    return visible(event.tool) if isinstance(event, ToolCall | GateDecision | ToolResult) else ""


def _turn(turn: Turn) -> str:
    said = f"answer: {excerpt(turn.text)}" if turn.text else "answer"
    tools = f" [calls {', '.join(map(visible, turn.tools[:5]))}]" if turn.tools else ""
    more = f" and {len(turn.tools) - 5} more" if len(turn.tools) > 5 else ""
    reason = turn.response.get("stop_reason")
    stopped = "" if tools or not isinstance(reason, str) else f" ({visible(reason[:40])})"
    return f"{said}{tools}{more}{stopped}"


def _arguments(args: Json) -> str:
    if not isinstance(args, dict):
        return "" if args is None else describe_value(args, 2 * _MOST_VALUE)
    shown = redact(dict(list(args.items())[:_MOST_ARGUMENTS]))
    written = [f"{visible(str(name))[:40]}={_written(value, _MOST_VALUE)}" for name, value in shown.items()]
    return ", ".join(written + ([f"{len(args) - _MOST_ARGUMENTS} more"] if len(args) > _MOST_ARGUMENTS else []))


def describe_value(value: Json, most: int) -> str:
    """Return a value as JSON on one line, redacted and cut."""
    return _written(redact(value), most)


def _written(value: Json, most: int) -> str:
    """Return a value that was redacted, as JSON on one line."""
    text = visible(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= most else f"{text[: most - 1]}…"
