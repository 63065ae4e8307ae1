"""A session uses no more than n tokens."""

from __future__ import annotations

from math import isfinite
from typing import Final

from pydantic import AliasChoices, Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.params import LARGEST_COUNT

_TOKENS: Final = ("input_tokens", "output_tokens", "thinking_tokens")
_NEEDED: Final = ("input_tokens", "output_tokens")
_NO_USAGE: Final = sg.Unsure("unevaluable", "a usage with input and output tokens")


class MaxTotalTokensParams(sg.Params):
    """Parameters of ``max_total_tokens``."""

    n: int = Field(
        validation_alias=AliasChoices("n", "limit"),
        ge=0,
        le=LARGEST_COUNT,
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


class MaxTotalTokensState(sg.State):
    """How many tokens were used."""

    total: int = 0


class MaxTotalTokens(sg.Rule[MaxTotalTokensParams, MaxTotalTokensState]):
    """Input, output and thinking tokens together must not pass ``n``; it fires once, when they do."""

    kind = "max_total_tokens"
    fires_once = True
    state_limit = 16
    examples = (
        sg.Example(
            claim="the turn that passes the limit is a hit, once",
            params={"n": 100},
            trace=[
                {"turn": "a", "usage": {"input_tokens": 90, "output_tokens": 10}},
                {"turn": "b", "usage": {"input_tokens": 1, "output_tokens": 0}},
                {"turn": "c", "usage": {"input_tokens": 50, "output_tokens": 50}},
            ],
            hits=[1],
        ),
        sg.Example(
            claim="the soft threshold is a hit of its own",
            params={"n": 100, "warn_at": 80},
            trace=[{"turn": "a", "usage": {"input_tokens": 90}}],
            hits=[0],
        ),
        sg.Example(
            claim="exactly the limit is fine",
            params={"n": 100},
            trace=[{"turn": "a", "usage": {"input_tokens": 60, "output_tokens": 10, "thinking_tokens": 30}}],
            hits=[],
        ),
    )

    def __init__(self, params: MaxTotalTokensParams) -> None:
        super().__init__(params)
        self._limit, self._warn_at = params.n, params.warn_at

    def on_turn(self, turn: sg.Turn, state: MaxTotalTokensState) -> sg.Hit | sg.Unsure | None:
        """Add what the turn used; the sum only grows, so each threshold is passed once."""
        usage = turn.response.get("usage")
        used, unknown = _used(usage) if isinstance(usage, dict) else (0, True)
        before, limit, warn_at = state.total, self._limit, self._warn_at
        total = before + used
        state.total = total = min(LARGEST_COUNT, total)
        if before <= limit < total:
            return sg.Hit(f"{total:,} tokens used, {limit:,} allowed", {"total": total, "limit": limit})
        if warn_at is not None and before <= warn_at < total <= limit:
            return sg.Hit(
                f"{total:,} tokens used of {limit:,}",
                {"total": total, "limit": limit, "warn_at": warn_at, "soft": True},
            )
        return _NO_USAGE if unknown and before <= limit else None

    def shortfall(self, _event: sg.Event, state: MaxTotalTokensState) -> sg.Shortfall:
        """How many tokens were used."""
        return sg.Shortfall(f"{state.total:,} tokens of {self._limit:,}", state.total / (self._limit + 1))


def _used(usage: dict[str, sg.Json]) -> tuple[int, bool]:
    """Return the tokens that are known, and whether input or output is not among them."""
    inputs, outputs, thinking = usage.get("input_tokens"), usage.get("output_tokens"), usage.get("thinking_tokens")
    if type(inputs) is int and type(outputs) is int and inputs >= 0 and outputs >= 0:  # nearly always so
        if thinking is None:
            return inputs + outputs, False
        if type(thinking) is int and thinking >= 0:
            return inputs + outputs + thinking, False
    used = found = 0
    for name in _TOKENS:
        value = usage.get(name)
        if type(value) is int and value >= 0:
            used, found = used + value, found + (name in _NEEDED)
        elif value is not None and (number := _count(value)) is not None:
            used, found = used + number, found + (name in _NEEDED)
    if found < len(_NEEDED) and (total := _count(usage.get("total_tokens"))) is not None:
        return max(used, total), False
    return used, found < len(_NEEDED)


def _count(value: sg.Json) -> int | None:
    """Return a number of tokens from an integer, a float or a text; None where the value is no number."""
    if type(value) is int:
        return max(value, 0)
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, float) and isfinite(value):
        return max(int(value), 0)
    return None
