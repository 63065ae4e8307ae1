"""How ``max_turns`` and ``max_total_tokens`` are written, and what they remember."""

from __future__ import annotations

from pydantic import AliasChoices, Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shapes.bounds import MOST


class MaxTurnsParams(sg.Params):
    """Parameters of ``max_turns``."""

    n: int = Field(
        validation_alias=AliasChoices("n", "limit"),
        ge=0,
        le=MOST,
        description="turns that are still fine (or `limit`)",
    )


class TurnCount(sg.State):
    """How many turns there were."""

    turns: int = 0


class MaxTotalTokensParams(sg.Params):
    """Parameters of ``max_total_tokens``."""

    n: int = Field(
        validation_alias=AliasChoices("n", "limit"),
        ge=0,
        le=MOST,
        description="tokens that are still fine (or `limit`)",
    )
    warn_at: int | None = Field(
        default=None, ge=0, description="a soft threshold below n: passing it is a hit whose evidence says `soft`"
    )

    @model_validator(mode="after")
    def _warns_first(self) -> MaxTotalTokensParams:
        if self.warn_at is not None and self.warn_at >= self.n:
            raise PydanticCustomError(
                "warn_at",
                "warn_at is {warn_at} and n is {n}; the warning must come first, so write a smaller warn_at",
                {"warn_at": self.warn_at, "n": self.n},
            )
        return self


class TokenSum(sg.State):
    """How many tokens were used."""

    total: int = 0
