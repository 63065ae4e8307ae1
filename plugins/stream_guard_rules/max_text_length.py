"""No response is longer than a number of words or characters."""

from __future__ import annotations

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg


class MaxTextLengthParams(sg.Params):
    """Parameters of ``max_text_length``."""

    words: int | None = Field(default=None, ge=0, description="words that are still fine")
    characters: int | None = Field(default=None, ge=0, description="characters that are still fine")

    @model_validator(mode="after")
    def _says_what(self) -> MaxTextLengthParams:
        if self.words is None and self.characters is None:
            raise PydanticCustomError("max_text_length", 'write "words", "characters" or both')
        return self


class MaxTextLength(sg.Rule[MaxTextLengthParams, sg.NoState]):
    """No response may be longer than ``words`` or ``characters``; words are what white space separates."""

    kind = "max_text_length"
    examples = (
        sg.Example(
            claim="each response that is too long is a hit",
            params={"words": 3},
            trace=[{"turn": "It is on its way."}, {"turn": "Here it is."}],
            hits=[0],
        ),
        sg.Example(claim="equal is fine", params={"characters": 5}, trace=[{"turn": "Hello"}], hits=[]),
    )

    def needs(self) -> frozenset[sg.Need]:
        """The responses' text."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | None:
        """Measure the text."""
        sizes = {"words": len(turn.text.split()), "characters": len(turn.text)}
        for unit, limit in (("words", self.params.words), ("characters", self.params.characters)):
            if limit is not None and sizes[unit] > limit:
                return sg.Hit(f"the response has {sizes[unit]} {unit}, {limit} are allowed", {**sizes, "limit": limit})
        return None

    def shortfall(self, event: sg.Event, _state: sg.NoState) -> sg.Shortfall | None:
        """How long the response is."""
        if not isinstance(event, sg.Turn):
            return None
        sizes = {"words": len(event.text.split()), "characters": len(event.text)}
        limits = {"words": self.params.words, "characters": self.params.characters}
        asked = [(sizes[unit] / (limit + 1), unit, limit) for unit, limit in limits.items() if limit is not None]
        share, unit, limit = max(asked)
        return sg.Shortfall(f"{sizes[unit]:,} {unit} of {limit:,}", share)
