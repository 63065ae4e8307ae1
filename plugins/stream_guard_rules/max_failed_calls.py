"""A tool is not tried again after n failures."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.params import LARGEST_COUNT


class MaxFailedCallsParams(sg.Params):
    """Parameters of ``max_failed_calls``."""

    tool: sg.ToolPattern = Field(description="the tools whose failures are counted: a name, a glob, or a list")
    n: int = Field(ge=1, le=LARGEST_COUNT, description="failures after which it must not be tried again")
    in_a_row: bool = Field(default=False, description="true: a success begins a new count")


class MaxFailedCallsState(sg.State):
    """How many attempts failed."""

    failures: int = 0


def _tried(*outcomes: str) -> list[dict[str, str]]:
    ids = {"abcd"[number]: status for number, status in enumerate(outcomes)}
    pairs = ([{"call": "log_in", "id": i}, {"result": "log_in", "id": i, "status": ids[i]}] for i in ids)
    return [event for pair in pairs for event in pair]


class MaxFailedCalls(sg.Rule[MaxFailedCallsParams, MaxFailedCallsState]):
    """``tool`` must not be tried again once ``n`` attempts at it have failed; a blocked attempt is no failure."""

    kind = "max_failed_calls"
    state_limit = 16
    examples = (
        sg.Example(
            claim="an attempt after the last allowed failure is a hit",
            params={"tool": "log_in", "n": 1},
            trace=[*_tried("error"), {"call": "log_in"}],
            hits=[2],
        ),
        sg.Example(
            claim="attempts that succeed are free",
            params={"tool": "log_in", "n": 1},
            trace=[*_tried("ok"), {"call": "log_in"}],
            hits=[],
        ),
        sg.Example(
            claim="with in_a_row, a success in between begins a new count",
            params={"tool": "log_in", "n": 2, "in_a_row": True},
            trace=[*_tried("error", "ok", "error", "error"), {"call": "log_in"}],
            hits=[8],
        ),
    )

    def tools(self) -> sg.ToolPattern:
        """The tools whose failures are counted."""
        return self.params.tool

    def on_tool_call(self, call: sg.ToolCall, state: MaxFailedCallsState) -> sg.Hit | None:
        """Fire when enough attempts have failed before."""
        if state.failures < self.params.n:
            return None
        evidence = {"tool": call.tool, "failures": state.failures, "limit": self.params.n}
        return sg.Hit(f"{call.tool} was tried again after {state.failures} failures", evidence)

    def on_tool_result(self, result: sg.ToolResult, state: MaxFailedCallsState) -> None:
        """Count a failure."""
        if result.status == "error":
            state.failures = min(state.failures + 1, LARGEST_COUNT)
        elif result.status == "ok" and self.params.in_a_row:
            state.failures = 0

    def on_ungated(self, event: sg.Event, state: MaxFailedCallsState) -> None:
        """Count failures outside the gate too."""
        if isinstance(event, sg.ToolResult):
            self.on_tool_result(event, state)
