"""Turns that announce tool calls without listing them."""

from __future__ import annotations

from typing import Final

import stream_guard as sg

_WAITS: Final = ("tool_use", "tool_calls")  # a tuple: a stop_reason may be any JSON, and a list has no hash


def awaits_calls(turn: sg.Turn) -> bool:
    """Whether the turn announces tool calls without listing them; the calls follow as events of their own."""
    return not turn.tools and turn.response.get("stop_reason") in _WAITS
