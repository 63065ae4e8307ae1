"""Events outside the gate of a rule that remembers."""

from __future__ import annotations

from typing import Any

import stream_guard as sg


def remember_ungated(rule: sg.Rule[Any, Any], event: sg.Event, state: sg.State) -> None:
    """Pass an event outside the gate to its handler, unless it is a call: only calls inside break the rule."""
    if isinstance(event, sg.UserMessage):
        rule.on_user_message(event, state)
    elif isinstance(event, sg.Turn):
        rule.on_turn(event, state)
    elif isinstance(event, sg.ToolResult):
        rule.on_tool_result(event, state)
