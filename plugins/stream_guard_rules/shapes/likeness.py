"""How ``must_be_similar`` is written."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg


class MustBeSimilarParams(sg.Params):
    """Parameters of ``must_be_similar``."""

    text: str = Field(description="the text that responses are compared with")
    threshold: float = Field(default=0.75, ge=0, le=1, description="how alike they must be, from 0 to 1")
    measure: sg.Measure | None = Field(
        default=None, description="the measure of a plugin, by its name; without it, words are compared"
    )
