"""No more than n calls of a turn are open at the same time."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg

MOST_OPEN_CALLS = 64  # open calls of one turn


class MaxParallelCallsParams(sg.Params):
    """Parameters of ``max_parallel_calls``."""

    n: int = Field(default=1, ge=1, le=MOST_OPEN_CALLS, description="calls that may be open at the same time")


class MaxParallelCallsState(sg.State):
    """The attempts of the current turn that have no result yet."""

    turn: int = -1
    open: list[int] = []
    more: int = 0  # attempts of the turn beyond those; whether they have a result is not known


class MaxParallelCalls(sg.Rule[MaxParallelCallsParams, MaxParallelCallsState]):
    """No more than ``n`` calls may be open at the same time: begun, and without a result.

    Only calls of one turn count as parallel, because a source may leave results out. Of one turn, 64 open calls are
    known by name; each further one counts as open until the turn is over.
    """

    kind = "max_parallel_calls"
    examples = (
        sg.Example(
            claim="the second call of one response is a hit",
            params={"n": 1},
            trace=[{"turn": None, "calls": ["get_order", "get_user"]}],
            hits=[0],
        ),
        sg.Example(
            claim="one call after the other is fine",
            params={"n": 1},
            trace=[{"call": "get_order", "id": "a"}, {"result": "get_order", "id": "a"}, {"call": "get_user"}],
            hits=[],
        ),
    )

    def on_tool_call(self, call: sg.ToolCall, state: MaxParallelCallsState) -> sg.Hit | None:
        """Count the open calls, this one included."""
        if call.index != state.turn:
            state.turn, state.open, state.more = call.index, [], 0
        if len(state.open) < MOST_OPEN_CALLS:
            state.open = [*state.open, call.attempt]
        else:
            state.more += 1
        count = len(state.open) + state.more
        if count <= self.params.n:
            return None
        evidence = {"tool": call.tool, "open": count, "limit": self.params.n}
        detail = f"{call.tool} was called while {count - 1} other calls had no result"
        return sg.Hit(detail, evidence, advice="wait for a result")

    def on_tool_result(self, result: sg.ToolResult, state: MaxParallelCallsState) -> None:
        """Close the call."""
        state.open = [attempt for attempt in state.open if attempt != result.attempt]

    def on_ungated(self, event: sg.Event, state: MaxParallelCallsState) -> None:
        """Close calls whose results stand outside the gate."""
        if isinstance(event, sg.ToolResult):
            self.on_tool_result(event, state)
