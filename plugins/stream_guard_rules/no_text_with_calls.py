"""A response that calls tools does not talk to the user as well."""

from __future__ import annotations

import stream_guard as sg
from stream_guard_rules.shared.evidence import cut


class NoTextWithCalls(sg.Rule[sg.Params, sg.NoState]):
    """A response that calls tools must not talk to the user as well."""

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

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | None:
        """Look for a text beside the calls."""
        if not turn.tools or not turn.text.strip():
            return None
        evidence = {"tools": list(turn.tools[:8]), "text": cut(turn.text)}
        return sg.Hit(f"the response calls {turn.tools[0]} and talks to the user as well", evidence)
