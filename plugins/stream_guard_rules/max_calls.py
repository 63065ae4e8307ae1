"""A tool is called no more than n times."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.params import LARGEST_COUNT


class MaxCallsParams(sg.Params):
    """Parameters of ``max_calls``."""

    tool: sg.ToolPattern = Field(
        default=sg.ToolPattern("*"), description="the tools that are counted together: a name, a glob, or a list"
    )
    n: int = Field(ge=0, le=LARGEST_COUNT, description="calls that are still fine")


class MaxCallsState(sg.State):
    """How many attempts there were."""

    calls: int = 0


class MaxCalls(sg.Rule[MaxCallsParams, MaxCallsState]):
    """``tool`` must not be called more than ``n`` times; every attempt beyond that is a hit, blocked or not."""

    kind = "max_calls"
    state_limit = 16
    examples = (
        sg.Example(
            claim="every call over the limit is a hit",
            params={"tool": "web_search", "n": 1},
            trace=[{"call": "web_search"}, {"call": "web_search"}, {"call": "web_search"}],
            hits=[1, 2],
        ),
        sg.Example(
            claim="other tools are not counted",
            params={"tool": "web_search", "n": 1},
            trace=[{"call": "web_search"}, {"call": "get_order"}],
            hits=[],
        ),
    )

    def tools(self) -> sg.ToolPattern:
        """The tools that are counted."""
        return self.params.tool

    def on_tool_call(self, call: sg.ToolCall, state: MaxCallsState) -> sg.Hit | None:
        """Count the attempt."""
        state.calls = min(state.calls + 1, LARGEST_COUNT)
        if state.calls <= self.params.n:
            return None
        evidence = {"tool": call.tool, "calls": state.calls, "limit": self.params.n}
        return sg.Hit(f"{call.tool} is call {state.calls} where {self.params.n} are allowed", evidence)
