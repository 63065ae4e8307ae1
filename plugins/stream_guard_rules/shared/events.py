"""Turns that announce calls, sessions told by calls alone, and events outside the gate of a rule that remembers."""

from __future__ import annotations

from typing import Any, Final

import stream_guard as sg

NO_TURNS: Final = sg.Unsure("unevaluable", "the responses: the session is told by its calls alone")

_WAITS: Final = ("tool_use", "tool_calls")  # a tuple: a stop_reason may be any JSON, and a list has no hash


def awaits_calls(turn: sg.Turn) -> bool:
    """Whether the turn announces tool calls without listing them; the calls follow as events of their own."""
    return not turn.tools and turn.response.get("stop_reason") in _WAITS


def has_no_turn(event: sg.ToolCall | sg.ToolResult) -> bool:
    """Whether no response was told before a call or a result; a call is told before its turn once at most."""
    return event.index < 0


def remember_ungated(rule: sg.Rule[Any, Any], event: sg.Event, state: sg.State) -> None:
    """Pass an event outside the gate to its handler, unless it is a call: only calls inside break the rule."""
    if isinstance(event, sg.UserMessage):
        rule.on_user_message(event, state)
    elif isinstance(event, sg.Turn):
        rule.on_turn(event, state)
    elif isinstance(event, sg.ToolResult):
        rule.on_tool_result(event, state)
