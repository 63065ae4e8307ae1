"""A session has no more than n turns."""

from __future__ import annotations

from pydantic import AliasChoices, Field

import stream_guard as sg
from stream_guard_rules.shared.params import LARGEST_COUNT


class MaxTurnsParams(sg.Params):
    """Parameters of ``max_turns``."""

    n: int = Field(
        validation_alias=AliasChoices("n", "limit"),
        ge=0,
        le=LARGEST_COUNT,
        description="turns that are still fine (or `limit`)",
    )


class MaxTurnsState(sg.State):
    """How many turns there were."""

    turns: int = 0


class MaxTurns(sg.Rule[MaxTurnsParams, MaxTurnsState]):
    """A session must not have more than ``n`` turns; it fires once, at turn n + 1."""

    kind = "max_turns"
    fires_once = True
    state_limit = 16
    examples = (
        sg.Example(
            claim="the turn after the last allowed one is a hit, once",
            params={"n": 1},
            trace=[{"turn": "a"}, {"turn": "b"}, {"turn": "c"}],
            hits=[1],
        ),
        sg.Example(claim="as many as allowed are fine", params={"n": 2}, trace=[{"turn": "a"}, {"turn": "b"}], hits=[]),
    )

    def __init__(self, params: MaxTurnsParams) -> None:
        super().__init__(params)
        self._first_too_many = params.n + 1

    def on_turn(self, _turn: sg.Turn, state: MaxTurnsState) -> sg.Verdict:
        """Count the turn until there are too many."""
        turns = state.turns + 1
        if turns > self._first_too_many:
            return None
        state.turns = turns
        if turns != self._first_too_many:
            return None
        return sg.Hit(
            f"turn {state.turns} where {self.params.n} are allowed", {"turns": state.turns, "limit": self.params.n}
        )
