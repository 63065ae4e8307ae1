"""One response of the session has a text in it."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.evidence import cut
from stream_guard_rules.shared.params import SoughtText


class MustIncludeTextParams(sg.Params):
    """Parameters of ``must_include_text``."""

    text: SoughtText = Field(description="the text to be found, letter for letter")


class MustIncludeTextState(sg.State):
    """Whether there was a response, and whether one had the text."""

    responded: bool = False
    found: bool = False


class MustIncludeText(sg.Rule[MustIncludeTextParams, MustIncludeTextState]):
    """At least one response must have ``text`` in it; a session without any response is not judged.

    With a ``when``, the text may stand in a response outside the gate.
    """

    kind = "must_include_text"
    fires_once = True
    state_limit = 16
    examples = (
        sg.Example(
            claim="a text in no response is a hit at the end",
            params={"text": "not financial advice"},
            trace=[{"turn": "Buy gold."}, {"turn": "Buy more."}, {"end": "closed"}],
            hits=["end"],
        ),
        sg.Example(
            claim="one response with the text is enough",
            params={"text": "not financial advice"},
            trace=[{"turn": "This is not financial advice."}, {"turn": "Buy gold."}, {"end": "closed"}],
            hits=[],
        ),
    )

    def __init__(self, params: MustIncludeTextParams) -> None:
        super().__init__(params)
        self._text = params.text

    def needs(self) -> frozenset[sg.Need]:
        """The responses' text."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, state: MustIncludeTextState) -> sg.Verdict:
        """Look for the text until it is found."""
        if state.found:
            return None
        if not state.responded:
            state.responded = True
        if self._text in turn.text:
            state.found = True
        return None

    def on_ungated(self, event: sg.Event, state: MustIncludeTextState) -> sg.Verdict:
        """Look outside the gate too."""
        return self.on_turn(event, state) if type(event) is sg.Turn else None

    def on_session_end(self, _end: sg.SessionEnd, state: MustIncludeTextState) -> sg.Hit | None:
        """Fire when there were responses and none had the text."""
        if state.found or not state.responded:
            return None
        return sg.Hit(f'no response has the text "{cut(self.params.text)}"', {"text": cut(self.params.text)})
