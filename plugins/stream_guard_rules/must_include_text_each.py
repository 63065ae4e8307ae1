"""Every response has a text in it."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.evidence import cut
from stream_guard_rules.shared.params import SoughtText


class MustIncludeTextEachParams(sg.Params):
    """Parameters of ``must_include_text_each``."""

    text: SoughtText = Field(description="the text to be found, letter for letter")


class MustIncludeTextEach(sg.Rule[MustIncludeTextEachParams, sg.NoState]):
    """Every response must have ``text`` in it; one that only calls tools has no text."""

    kind = "must_include_text_each"
    examples = (
        sg.Example(
            claim="each response without the text is a hit",
            params={"text": "[source]"},
            trace=[{"turn": "42 [source]"}, {"turn": "43"}],
            hits=[1],
        ),
        sg.Example(
            claim="responses with the text are silent",
            params={"text": "[source]"},
            trace=[{"turn": "42 [source]"}],
            hits=[],
        ),
    )

    def __init__(self, params: MustIncludeTextEachParams) -> None:
        super().__init__(params)
        self._text = params.text

    def needs(self) -> frozenset[sg.Need]:
        """The responses' text."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | None:
        """Look for the text."""
        if self._text in turn.text:
            return None
        return sg.Hit(f'the response does not have the text "{cut(self.params.text)}"', {"text": cut(self.params.text)})
