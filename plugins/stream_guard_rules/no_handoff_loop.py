"""Agents do not hand a session to one another in a circle."""

from __future__ import annotations

from typing import Final

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.cycles import LONGEST_PERIOD, Again, Cycles
from stream_guard_rules.shared.json_values import short_digest

_MOST_ANCESTORS: Final = 16


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
        agent = short_digest(event.agent)
        if not event.agent or agent == state.agent:
            return None
        before, above = state.agent, state.above
        state.agent = agent
        state.above = [short_digest(name) for name in event.agent_path[-_MOST_ANCESTORS:]]
        if not before or before in state.above or agent in above:
            return None
        found = self._cycles.add(short_digest([before, agent]), state.symbols, state.runs)
        if found is None:
            return None
        evidence = {"agent": event.agent, "handoffs": found[0], "repeats": found[1]}
        return sg.Hit(f"the same {found[0]} hand-offs came {found[1]} times in a row", evidence)
