"""Runs of agents are neither too deep nor too many."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Final

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.events import awaits_calls
from stream_guard_rules.shared.json_values import short_digest
from stream_guard_rules.shared.lost_memory import FORGOTTEN, evict_oldest, was_forgotten

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
    """The runs that were seen, when the latest of them began, and the names of those that were forgotten."""

    seen: dict[str, bool] = {}  # whether there was room for the run when it began
    began: list[float] = []
    forgotten: sg.Sketch | None = None


class MaxDelegation(sg.Rule[MaxDelegationParams, MaxDelegationState]):
    """An agent's run must not lie deeper than ``depth``, and no more than ``runs`` may begin ``within_seconds``.

    It fires at every call of the run that is too deep or too many, because none of them may run, and at its first turn
    where that calls nothing. The latest 512 runs are remembered; one that was forgotten could not be judged by number.
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
            claim="every call of the run that is too many is a hit",
            params={"runs": 1},
            trace=[{"turn": "a", "run": "r1"}, {"call": "t", "run": "r2"}, {"call": "t", "run": "r2"}],
            hits=[1, 2],
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

    def on_turn(self, turn: sg.Turn, state: MaxDelegationState) -> sg.Hit | sg.Unsure | None:
        """Judge the run at its first turn, unless its calls do."""
        known = _name(turn) in state.seen
        verdict = self._judge(turn, state)
        return None if known or turn.tools or awaits_calls(turn) else verdict

    def on_tool_call(self, call: sg.ToolCall, state: MaxDelegationState) -> sg.Hit | sg.Unsure | None:
        """Judge the run at each of its calls: the second one is as wrong as the first."""
        return self._judge(call, state)

    def _judge(self, event: sg.Turn | sg.ToolCall, state: MaxDelegationState) -> sg.Hit | sg.Unsure | None:
        has_room = self._note(event, state)
        depth, most = len(event.agent_path), self.params.depth
        if most is not None and depth > most:
            evidence = {"agent": event.agent, "depth": depth, "limit": most}
            return sg.Hit(f"{depth} agents stand above this one, {most} are allowed", evidence)
        if has_room is None:
            return FORGOTTEN
        if has_room:
            return None
        evidence = {"agent": event.agent, "limit": self.params.runs}
        return sg.Hit(f"one run more than the {self.params.runs} that are allowed", evidence)

    def _note(self, event: sg.Turn | sg.ToolCall, state: MaxDelegationState) -> bool | None:
        """Count the run of an event unless it was counted before; return whether there was room, None: forgotten."""
        run, most = _name(event), self.params.runs
        has_room = state.seen.get(run)
        if has_room is None:
            if most is not None and was_forgotten(run, state):
                return None
            state.seen[run] = True
            evict_oldest(state.seen, _MOST_RUNS, state)
            has_room = state.seen[run] = most is None or self._count(event.time, state) <= most
        return has_room

    def _count(self, now: float | None, state: MaxDelegationState) -> int:
        """Return how many runs began, this one included, in the span that ends now."""
        span, most = self.params.within_seconds, (self.params.runs or 0) + 1
        if span is None or now is None:
            return len(state.seen)
        insort(state.began, now)
        del state.began[:-most]
        # Half-open: a run that began exactly so long ago has left the span.
        return bisect_right(state.began, now) - bisect_right(state.began, now - span)


def _name(event: sg.Turn | sg.ToolCall) -> str:
    return short_digest([event.run_id, *event.agent_path])
