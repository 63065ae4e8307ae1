"""Every response with a text matches a pattern, or one of the session does."""

from __future__ import annotations

from typing import Final

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.evidence import cut

_SHOWN: Final = 60  # characters of a response that a headline quotes, at either end


class MustMatchTextParams(sg.Params):
    """Parameters of ``must_match_text``."""

    pattern: sg.Regex = Field(description="a regular expression (RE2) that the text must match somewhere")
    each: bool = Field(default=True, description="true: every response with a text; false: one response is enough")
    empty: bool = Field(default=False, description="true: a response without a text is judged like any other")


class MustMatchTextState(sg.State):
    """Whether there was a response with a text, and whether one matched."""

    responded: bool = False
    found: bool = False


class MustMatchText(sg.Rule[MustMatchTextParams, MustMatchTextState]):
    """Every response with a text must match ``pattern``; with ``each: false``, one response of the session must.

    A response that only calls tools has no text and is not judged, unless ``empty`` asks for it.
    """

    kind = "must_match_text"
    state_limit = 16
    examples = (
        sg.Example(
            claim="each response that does not match is a hit",
            params={"pattern": r"Have a nice day\W*$"},
            trace=[{"turn": "Done. Have a nice day!"}, {"turn": "Done."}],
            hits=[1],
        ),
        sg.Example(
            claim="where one response is enough, none is a hit at the end",
            params={"pattern": "https?://", "each": False},
            trace=[{"turn": "It is so."}, {"end": "closed"}],
            hits=["end"],
        ),
        sg.Example(
            claim="a response that only calls tools is not judged",
            params={"pattern": "bye"},
            trace=[{"turn": None, "calls": ["get_order"]}],
            hits=[],
        ),
    )

    def __init__(self, params: MustMatchTextParams) -> None:
        super().__init__(params)
        self._pattern, self._each, self._empty = params.pattern, params.each, params.empty
        self._wanted = cut(params.pattern.pattern)

    def needs(self) -> frozenset[sg.Need]:
        """The responses' text."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, state: MustMatchTextState) -> sg.Hit | None:
        """Match the text."""
        text = turn.text
        if not self._empty and not text.strip():
            return None
        matches = self._pattern.occurs_in(text)
        if not self._each:
            state.responded = True
            state.found = state.found or matches
            return None
        if matches:
            return None
        begins, ends = text[:_SHOWN], text[-_SHOWN:]
        said = f'"{begins}"' if len(text) <= _SHOWN else f'beginning "{begins}" and ending "{ends}"'
        return sg.Hit(f"the response {said} does not match", {"pattern": self._wanted, "ends_with": ends})

    def on_ungated(self, event: sg.Event, state: MustMatchTextState) -> None:
        """Let a response outside the gate satisfy the session."""
        if not self._each and isinstance(event, sg.Turn):
            self.on_turn(event, state)

    def on_session_end(self, _end: sg.SessionEnd, state: MustMatchTextState) -> sg.Hit | None:
        """Fire when one response was to match and none did."""
        if self._each or state.found or not state.responded:
            return None
        return sg.Hit("no response of the session matches", {"pattern": self._wanted})
