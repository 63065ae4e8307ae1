"""What a rule that remembers takes in from outside its gate."""

from __future__ import annotations

from typing import Any

import stream_guard as sg


def remember_ungated(rule: sg.Rule[Any, Any], event: sg.Event, state: sg.State) -> None:
    """Show a rule an event outside its gate that is no call: it may satisfy the rule, and only calls break it."""
    if isinstance(event, sg.UserMessage):
        rule.on_user_message(event, state)
    elif isinstance(event, sg.Turn):
        rule.on_turn(event, state)
    elif isinstance(event, sg.ToolResult):
        rule.on_tool_result(event, state)
