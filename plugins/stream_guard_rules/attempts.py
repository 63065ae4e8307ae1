"""What became of attempts: which were stopped, which may still run, and whose calls are yet to come."""

from __future__ import annotations

from typing import Final
from zlib import crc32

import stream_guard as sg

_WAITS: Final = ("tool_use", "tool_calls")  # a tuple: a stop_reason may be any JSON, and a list has no hash


def attempt_id(event: sg.ToolCall | sg.ToolResult | sg.GateDecision) -> int:
    """Return the number of the attempt, or -1 where the event belongs to none.

    A key may span sessions, and attempts are numbered in each: the session is part of the number.
    """
    if event.attempt < 0:
        return -1
    return crc32(event.session_id.encode("utf-8", "surrogatepass")) << 24 | event.attempt & 0xFFFFFF


def awaits_calls(turn: sg.Turn) -> bool:
    """Whether the turn says that it calls tools but does not list them: they come as events of their own."""
    return not turn.tools and turn.response.get("stop_reason") in _WAITS
