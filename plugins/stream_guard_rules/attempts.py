"""Attempts that are announced: whose calls are yet to come."""

from __future__ import annotations

from typing import Final

import stream_guard as sg

_WAITS: Final = ("tool_use", "tool_calls")  # a tuple: a stop_reason may be any JSON, and a list has no hash


def awaits_calls(turn: sg.Turn) -> bool:
    """Whether the turn says that it calls tools but does not list them: they come as events of their own."""
    return not turn.tools and turn.response.get("stop_reason") in _WAITS
