"""How ``must_be_grounded`` is written."""

from __future__ import annotations

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg


class MustBeGroundedParams(sg.Params):
    """Parameters of ``must_be_grounded``."""

    retrieval_path: sg.Path = Field(
        description="where the retrieved chunks stand in the turn: a text, an object with `text`, or a list of either"
    )
    min_unigram_precision: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="the share of the answer's words that must occur in the chunks; equal is enough",
    )

    @field_validator("retrieval_path")
    @classmethod
    def _is_in_the_turn(cls, path: sg.Path) -> sg.Path:
        if path.text.split(".")[0] not in {"request", "response"}:
            raise PydanticCustomError(
                "path",
                'chunks stand in a turn\'s request or response; "{path}" leads elsewhere',
                {"path": path.text},
            )
        return path
