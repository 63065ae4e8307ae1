"""Every response has a text that a reader can see."""

from __future__ import annotations

from typing import Final

import re2

import stream_guard as sg

# What a reader sees: no separator, no control, and no mark that only formats, such as a zero-width space.
_VISIBLE: Final = r"[^\s\p{Z}\p{C}]"


class MustHaveText(sg.Rule[sg.Params, sg.NoState]):
    """Every response must have a text that a reader can see.

    White space and marks of no width are no text. A response that only calls tools is a hit too: gate the rule
    where responses may do that.
    """

    kind = "must_have_text"
    examples = (
        sg.Example(
            claim="white space is no text",
            params={},
            trace=[{"turn": " \n\t "}, {"turn": "\u00a0\u200b"}, {"turn": ""}],
            hits=[0, 1, 2],
        ),
        sg.Example(claim="one character is a text", params={}, trace=[{"turn": " . "}], hits=[]),
    )

    def __init__(self, params: sg.Params) -> None:
        super().__init__(params)
        self._visible = re2.compile(_VISIBLE)

    def needs(self) -> frozenset[sg.Need]:
        """The responses' text."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | None:
        """Look for a visible character."""
        text = turn.text
        stripped = text.lstrip()
        # Nearly every text begins with a sign of ASCII that is visible.
        if stripped and (
            "!" <= stripped[0] <= "~" or self._visible.search(stripped.encode("utf-8", "replace")) is not None
        ):
            return None
        return sg.Hit("the response has no text", {"characters": len(text)})
