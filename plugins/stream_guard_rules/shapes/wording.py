"""How rules about wording are written, and what they remember."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg


class MustMatchTextParams(sg.Params):
    """Parameters of ``must_match_text``."""

    pattern: sg.Regex = Field(description="a regular expression (RE2) that the text must match somewhere")
    each: bool = Field(default=True, description="true: every response with a text; false: one response is enough")
    empty: bool = Field(default=False, description="true: a response without a text is judged like any other")


class MatchState(sg.State):
    """Whether there was a response with a text, and whether one matched."""

    responded: bool = False
    found: bool = False
