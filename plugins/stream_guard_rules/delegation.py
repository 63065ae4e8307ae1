"""Rules about agents that hand work to one another: circles, depth, and how many are started."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Final

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.digests import digest
from stream_guard_rules.loops import LONGEST_PERIOD, Again, Cycles

_SHORT: Final = 12  # characters of a digest that are kept
_MOST_ANCESTORS: Final = 16
_MOST_RUNS: Final = 512


class NoHandoffLoopParams(sg.Params):
    """Parameters of ``no_handoff_loop``."""

    times: int = Field(default=2, ge=2, le=1000, description="how often in a row is a loop")
    max_period: int = Field(
        default=3, ge=2, le=LONGEST_PERIOD, description="hand-offs in the longest circle that is looked for"
    )
    again: Again = Field(
        default="doubling",
        description="when it fires again while the loop goes on: each time it has doubled, at each hand-off, "
        "or not at all",
    )


class NoHandoffLoopState(sg.State):
    """The agent that works now, the agents above it, and the latest hand-offs."""

    agent: str = ""
    above: list[str] = []
    symbols: list[str] = []
    runs: list[int] = []


class NoHandoffLoop(sg.Rule[NoHandoffLoopParams, NoHandoffLoopState]):
    """Agents must not hand a session to one another in a circle.

    A hand-off is seen where a turn or a call comes from another agent than the one before. Work that an agent gives
    to a sub-agent, and its return, is no hand-off: `agent_path` tells.
    """

    kind = "no_handoff_loop"
    state_limit = 1024
    examples = (
        sg.Example(
            claim="a circle that is closed twice is a hit",
            params={},
            trace=[{"turn": "a", "agent": name} for name in ("sales", "billing", "sales", "billing", "sales")],
            hits=[4],
        ),
        sg.Example(
            claim="a chain is no circle",
            params={},
            trace=[{"turn": "a", "agent": name} for name in ("sales", "billing", "legal", "shipping", "sales")],
            hits=[],
        ),
    )

    def __init__(self, params: NoHandoffLoopParams) -> None:
        super().__init__(params)
        self._cycles = Cycles(2, params.max_period, params.times, params.again)

    def on_turn(self, turn: sg.Turn, state: NoHandoffLoopState) -> sg.Hit | None:
        """Note who answers."""
        return self._note(turn, state)

    def on_tool_call(self, call: sg.ToolCall, state: NoHandoffLoopState) -> sg.Hit | None:
        """Note who calls."""
        return self._note(call, state)

    def on_ungated(self, event: sg.Event, state: NoHandoffLoopState) -> None:
        """Note hand-offs outside the gate too."""
        if isinstance(event, sg.Turn | sg.ToolCall):
            self._note(event, state)

    def _note(self, event: sg.Turn | sg.ToolCall, state: NoHandoffLoopState) -> sg.Hit | None:
        agent = digest(event.agent)[:_SHORT]
        if not event.agent or agent == state.agent:
            return None
        before, above = state.agent, state.above
        state.agent = agent
        state.above = [digest(name)[:_SHORT] for name in event.agent_path[-_MOST_ANCESTORS:]]
        if not before or before in state.above or agent in above:
            return None
        found = self._cycles.add(digest([before, agent])[:_SHORT], state.symbols, state.runs)
        if found is None:
            return None
        evidence = {"agent": event.agent, "handoffs": found[0], "repeats": found[1]}
        return sg.Hit(f"the same {found[0]} hand-offs came {found[1]} times in a row", evidence)


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
        if (run := digest([event.run_id, *event.agent_path])[:_SHORT]) in state.seen:
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
