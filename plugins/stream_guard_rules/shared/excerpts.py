"""Events as lines of an excerpt: JSON in ASCII, short, without secrets. What an agent wrote stays inside its string."""

from __future__ import annotations

import json
from typing import Final

import stream_guard as sg

_SHORTEST: Final = 20  # characters of a text, before an event is left out


def line_of(event: sg.Event, longest: int, *, is_asked: bool = False) -> str:
    """Return an event as one line of at most ``longest`` characters; its texts are cut until it fits."""
    kind = event.__struct_config__.tag
    asked = {"asked": True} if is_asked else {}
    for text in (longest, longest // 4, _SHORTEST):
        try:
            line = json.dumps({"event": kind, **_content(event, text), **asked}, allow_nan=False)
        except ValueError:  # a number that JSON does not have, from a caller in this process
            break
        if len(line) <= longest:
            return line
    return json.dumps({"event": kind, "content": "cannot be shown in short", **asked})


def _content(event: sg.Event, longest: int) -> dict[str, sg.Json]:
    """Return what is shown of an event: neither its ids nor its time, so that the same question is asked once."""
    shown: dict[str, sg.Json] = {}
    if isinstance(event, sg.ToolCall):
        shown = {"tool": sg.redact_text(event.tool, longest), "args": sg.redact(event.args, longest)}
    elif isinstance(event, sg.ToolResult):
        output = sg.redact(event.output, longest)
        shown = {"tool": sg.redact_text(event.tool, longest), "status": event.status, "output": output}
    elif isinstance(event, sg.UserMessage | sg.Turn):
        shown = {"text": sg.redact_text(event.text, longest)}
    return shown if event.captured else {**shown, "content": "not captured"}
