"""Tokens and tools together cost no more than a budget."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.json_values import number

_MOST_USD: Final = 1e12
_DAY: Final = 86400.0


class TokenPrice(sg.Params):
    """US dollars for a million tokens of a model."""

    input: float = Field(ge=0, allow_inf_nan=False, description="tokens of the request")
    output: float = Field(ge=0, allow_inf_nan=False, description="tokens of the response")
    cache_read: float | None = Field(default=None, ge=0, description="tokens read from the cache; else as input")
    cache_write: float | None = Field(default=None, ge=0, description="tokens written to the cache; else as input")
    thinking: float | None = Field(default=None, ge=0, description="tokens of reasoning; else as output")

    def cost(self, usage: dict[str, sg.Json]) -> float:
        """Return the dollars for a turn. Cached tokens are part of the input."""
        read, written = _tokens(usage, "cache_read_tokens"), _tokens(usage, "cache_write_tokens")
        plain = max(0, _tokens(usage, "input_tokens") - read - written)
        dollars = plain * self.input + _tokens(usage, "output_tokens") * self.output
        dollars += read * (self.input if self.cache_read is None else self.cache_read)
        dollars += written * (self.input if self.cache_write is None else self.cache_write)
        dollars += _tokens(usage, "thinking_tokens") * (self.output if self.thinking is None else self.thinking)
        return dollars / 1e6


class MaxCostParams(sg.Params):
    """Parameters of ``max_cost``."""

    usd: float = Field(ge=0, le=_MOST_USD, description="US dollars that are still fine")
    warn_at: float | None = Field(
        default=None, ge=0, description="a soft threshold below it: passing it is a hit whose evidence says `soft`"
    )
    per: Literal["key", "day"] = Field(
        default="key", description="`day`: begin anew at midnight UTC, by event time; `key`: never"
    )
    prices: dict[str, TokenPrice] = Field(
        default={}, max_length=200, description="prices by model, for turns whose usage has no cost_usd; `*`: any other"
    )
    tool_prices: dict[str, float] = Field(default={}, max_length=200, description="US dollars for one call, by tool")

    @model_validator(mode="after")
    def _warns_first(self) -> MaxCostParams:
        if self.warn_at is not None and self.warn_at >= self.usd:
            raise PydanticCustomError("warn_at", '"warn_at" must be smaller than "usd"')
        if any(not 0 <= price <= _MOST_USD for price in self.tool_prices.values()):
            raise PydanticCustomError("tool_prices", "a price is a number of dollars, 0 or more")
        return self


class MaxCostState(sg.State):
    """What was spent, on which day, and which threshold was passed."""

    spent: float = 0.0
    day: int = 0
    level: int = 0


class MaxCost(sg.Rule[MaxCostParams, MaxCostState]):
    """No more than ``usd`` may be spent, on tokens and tools together.

    It fires where the budget is passed, and then at every call of a tool, so that a gate can stop them. The cost of a
    turn is its ``cost_usd``, or follows from its tokens and ``prices``. The budget is that of the rule's key:
    ``[session]``, ``[agent]``, ``[labels.tenant]``. For a pause before the block, write two rules.
    """

    kind = "max_cost"
    state_limit = 32
    examples = (
        sg.Example(
            claim="the turn that passes the budget is a hit, and every call after it",
            params={"usd": 1, "warn_at": 0.5},
            trace=[
                {"turn": "a", "usage": {"cost_usd": 0.6}},
                {"call": "look"},
                {"turn": "b", "usage": {"cost_usd": 0.6}},
                {"turn": "c", "usage": {"cost_usd": 0.6}},
                {"call": "look"},
            ],
            hits=[0, 2, 4],
        ),
        sg.Example(
            claim="tokens and tools have prices",
            params={
                "usd": 1,
                "prices": {"*": {"input": 100, "output": 1000, "cache_read": 10}},
                "tool_prices": {"search": 0.5},
            },
            trace=[
                {"turn": "a", "usage": {"input_tokens": 2000, "output_tokens": 300, "cache_read_tokens": 1000}},
                {"call": "search"},
                {"call": "search"},
            ],
            hits=[2],
        ),
        sg.Example(
            claim="exactly the budget is fine, and a new day has a new one",
            params={"usd": 1, "per": "day"},
            trace=[
                {"turn": "a", "usage": {"cost_usd": 1}, "at": 86000},
                {"turn": "b", "usage": {"cost_usd": 1}, "at": 86500},
            ],
            hits=[],
        ),
    )

    def needs(self) -> frozenset[sg.Need]:
        """A clock, where each day has its budget."""
        return frozenset(("clock",) if self.params.per == "day" else ())

    def on_turn(self, turn: sg.Turn, state: MaxCostState) -> sg.Verdict:
        """Add what the turn cost."""
        cost = self._cost(turn)
        hit = self._add(cost or 0.0, turn, state)
        unknown = cost is None and state.spent <= self.params.usd
        return sg.Unsure("unevaluable", "a cost, or tokens and a price for the model") if unknown and not hit else hit

    def on_tool_call(self, call: sg.ToolCall, state: MaxCostState) -> sg.Verdict:
        """Add what the call costs; object to every call once the budget is spent."""
        hit = self._add(self.params.tool_prices.get(call.tool, 0.0), call, state)
        if hit is not None or state.level < 2:
            return hit
        return self._hit(state, f"{call.tool} is called after the budget was spent")

    def on_ungated(self, event: sg.Event, state: MaxCostState) -> None:
        """Outside the gate nothing is counted: the budget is that of the events inside."""

    def _add(self, cost: float, event: sg.Event, state: MaxCostState) -> sg.Hit | None:
        if self.params.per == "day" and event.time is not None and (day := int(event.time // _DAY)) != state.day:
            if day < state.day:
                return None  # a late event of a day that is over
            state.day, state.spent, state.level = day, 0.0, 0
        state.spent = min(state.spent + cost, _MOST_USD)
        if state.spent > self.params.usd + 1e-9 and state.level < 2:
            state.level = 2
            return self._hit(state, "the budget is spent")
        if self.params.warn_at is not None and state.spent > self.params.warn_at and state.level < 1:
            state.level = 1
            return self._hit(state, "the budget is nearly spent", soft=True)
        return None

    def _hit(self, state: MaxCostState, what: str, *, soft: bool = False) -> sg.Hit:
        evidence = {"usd": round(state.spent, 6), "limit": self.params.usd} | ({"soft": True} if soft else {})
        return sg.Hit(f"{what}: {state.spent:.4g} of {self.params.usd:g} dollars", evidence)

    def _cost(self, turn: sg.Turn) -> float | None:
        usage = turn.response.get("usage")
        if not isinstance(usage, dict):
            return None
        cost = number(usage.get("cost_usd"))
        if cost is not None and cost >= 0:
            return cost
        model = turn.labels.get("model") or turn.response.get("model") or (turn.request or {}).get("model")
        price = self.params.prices.get(str(model)) or self.params.prices.get("*")
        if (
            price is None
            or not isinstance(usage.get("input_tokens"), int)
            or not isinstance(usage.get("output_tokens"), int)
        ):
            return None
        return price.cost(usage)


def _tokens(usage: dict[str, sg.Json], name: str) -> float:
    value = usage.get(name)
    return max(0.0, number(value) or 0.0) if type(value) is int else 0.0
