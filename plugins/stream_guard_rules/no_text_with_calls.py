"""A response that calls tools does not talk to the user as well."""

from __future__ import annotations

import stream_guard as sg
from stream_guard_rules.shared.events import awaits_calls
from stream_guard_rules.shared.evidence import cut


class NoTextWithCallsState(sg.State):
    """The text beside which calls are announced that are still to come, and its turn."""

    text: str = ""
    index: int = -1


class NoTextWithCalls(sg.Rule[sg.Params, NoTextWithCallsState]):
    """A response that calls tools must not talk to the user as well.

    Where a response announces calls without listing them, it fires at the first of them.
    """

    kind = "no_text_with_calls"
    examples = (
        sg.Example(
            claim="a response that talks and calls is a hit",
            params={},
            trace=[{"turn": "I am looking.", "calls": ["get_order"]}],
            hits=[0],
        ),
        sg.Example(
            claim="one that only talks, and one that only calls, are fine",
            params={},
            trace=[{"turn": "One moment."}, {"turn": None, "calls": ["get_order"]}],
            hits=[],
        ),
    )

    def needs(self) -> frozenset[sg.Need]:
        """The responses' text."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, state: NoTextWithCallsState) -> sg.Hit | None:
        """Look for a text beside the calls."""
        text = turn.text if turn.text.strip() else ""
        state.text, state.index = (cut(text), turn.index) if text and awaits_calls(turn) else ("", -1)
        return _hit(turn.tools, cut(text)) if text and turn.tools else None

    def on_tool_call(self, call: sg.ToolCall, state: NoTextWithCallsState) -> sg.Hit | None:
        """Fire at the first call that a response with a text has announced."""
        text, state.text = state.text, ""
        return _hit((call.tool,), text) if text and call.index == state.index else None

    def on_ungated(self, _event: sg.Event, state: NoTextWithCallsState) -> None:
        """What comes next belongs to no response inside the gate."""
        state.text = ""


def _hit(tools: tuple[str, ...], text: str) -> sg.Hit:
    evidence = {"tools": list(tools[:8]), "text": text}
    return sg.Hit(f"the response calls {tools[0]} and talks to the user as well", evidence)
