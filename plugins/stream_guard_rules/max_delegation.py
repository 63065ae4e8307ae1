"""Runs of agents are neither too deep nor too many."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Final

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.digests import short_digest

_MOST_RUNS: Final = 512


class MaxDelegationParams(sg.Params):
    """Parameters of ``max_delegation``."""

    depth: int | None = Field(default=None, ge=0, le=1000, description="agents above an agent that are still fine")
    runs: int | None = Field(default=None, ge=1, le=_MOST_RUNS - 1, description="runs that are still fine")
    within_seconds: sg.Duration | None = Field(
        default=None, description="count the runs that began in this span; without it, all of the session"
    )

    @model_validator(mode="after")
    def _says_what(self) -> MaxDelegationParams:
        if self.depth is None and self.runs is None:
            raise PydanticCustomError("max_delegation", 'write "depth", "runs" or both')
        if self.within_seconds is not None and self.runs is None:
            raise PydanticCustomError("max_delegation", '"within_seconds" is about "runs"; write how many are fine')
        return self


class MaxDelegationState(sg.State):
    """The runs that were seen, and when the latest of them began."""

    seen: dict[str, bool] = {}
    began: list[float] = []


class MaxDelegation(sg.Rule[MaxDelegationParams, MaxDelegationState]):
    """An agent's run must not lie deeper than ``depth``, and no more than ``runs`` may begin ``within_seconds``.

    It fires at the first turn or call of the run that is too deep or too many. The latest 512 runs are remembered.
    """

    kind = "max_delegation"
    state_limit = 16384
    examples = (
        sg.Example(
            claim="the run that is too many is a hit",
            params={"runs": 2, "within_seconds": 60},
            trace=[
                {"turn": "a", "run": "r1", "at": 0},
                {"turn": "a", "run": "r2", "at": 1},
                {"turn": "b", "run": "r2", "at": 2},
                {"turn": "a", "run": "r3", "at": 3},
            ],
            hits=[3],
        ),
        sg.Example(
            claim="runs that begin at leisure are fine",
            params={"runs": 2, "within_seconds": 60},
            trace=[{"turn": "a", "run": f"r{number}", "at": number * 30} for number in range(4)],
            hits=[],
        ),
    )

    def needs(self) -> frozenset[sg.Need]:
        """A clock, for a span of time."""
        return frozenset(("clock",) if self.params.within_seconds is not None else ())

    def on_turn(self, turn: sg.Turn, state: MaxDelegationState) -> sg.Hit | None:
        """Judge the run at its first turn."""
        return self._begin(turn, state)

    def on_tool_call(self, call: sg.ToolCall, state: MaxDelegationState) -> sg.Hit | None:
        """Judge the run at its first call."""
        return self._begin(call, state)

    def _begin(self, event: sg.Turn | sg.ToolCall, state: MaxDelegationState) -> sg.Hit | None:
        if (run := short_digest([event.run_id, *event.agent_path])) in state.seen:
            return None
        state.seen[run] = True
        if len(state.seen) > _MOST_RUNS:
            del state.seen[next(iter(state.seen))]
        depth, most = len(event.agent_path), self.params.runs
        if self.params.depth is not None and depth > self.params.depth:
            evidence = {"agent": event.agent, "depth": depth, "limit": self.params.depth}
            return sg.Hit(f"{depth} agents stand above this one, {self.params.depth} are allowed", evidence)
        if most is None or (count := self._count(event.time, state)) <= most:
            return None
        return sg.Hit(f"run {count} where {most} are allowed", {"agent": event.agent, "runs": count, "limit": most})

    def _count(self, now: float | None, state: MaxDelegationState) -> int:
        """Return how many runs began, this one included, in the span that ends now."""
        span, most = self.params.within_seconds, (self.params.runs or 0) + 1
        if span is None or now is None:
            return len(state.seen)
        insort(state.began, now)
        del state.began[:-most]
        # Half-open: a run that began exactly so long ago has left the span.
        return bisect_right(state.began, now) - bisect_right(state.began, now - span)
