"""The same calls are not made over and over."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.cycles import AGAIN_DESCRIPTION, LONGEST_PERIOD, Again, Cycles
from stream_guard_rules.shared.json_values import short_digest


class NoRepeatedCallsParams(sg.Params):
    """Parameters of ``no_repeated_calls``."""

    tool: sg.ToolPattern = Field(
        default=sg.ToolPattern("*"), description="the tools that are looked at: a name, a glob, or a list"
    )
    times: int = Field(default=3, ge=2, le=1000, description="how often in a row is a loop")
    min_period: int = Field(
        default=1, ge=1, le=LONGEST_PERIOD, description="calls in the shortest block that is looked for; 1: equal calls"
    )
    max_period: int = Field(
        default=LONGEST_PERIOD, ge=1, le=LONGEST_PERIOD, description="calls in the longest block that is looked for"
    )
    compare: Literal["arguments", "tool"] = Field(
        default="arguments", description="calls are equal by tool and arguments, or by the tool alone"
    )
    again: Again = Field(default="doubling", description=AGAIN_DESCRIPTION)
    user_resets: bool = Field(default=True, description="a message of the user begins a new count")

    @model_validator(mode="after")
    def _has_a_period(self) -> NoRepeatedCallsParams:
        if self.min_period > self.max_period:
            raise PydanticCustomError("period", "min_period is greater than max_period; write the smaller one first")
        return self


class NoRepeatedCallsState(sg.State):
    """The latest calls, as digests, and for each period how long they have kept to it."""

    symbols: list[str] = []
    runs: list[int] = []


class NoRepeatedCalls(sg.Rule[NoRepeatedCallsParams, NoRepeatedCallsState]):
    """The same calls must not be made over and over: one call, or a block of up to six, ``times`` times in a row.

    Arguments are compared as JSON: the order of keys does not count, and 1 is 1.0. Calls of tools that ``tool`` leaves
    out do not break a loop. With ``scope: run`` each agent's run is looked at by itself.
    """

    kind = "no_repeated_calls"
    equates_arguments = True
    state_limit = 256
    examples = (
        sg.Example(
            claim="the third equal call is a hit, and then the sixth",
            params={},
            trace=[{"call": "read", "args": {"path": "a", "line": 1}}] * 7,
            hits=[2, 5],
        ),
        sg.Example(
            claim="a block of calls that is repeated is a hit",
            params={"min_period": 2, "user_resets": False},
            trace=[{"call": "open"}, {"call": "close"}] * 3,
            hits=[5],
        ),
        sg.Example(
            claim="other arguments are another call, and a user begins anew",
            params={},
            trace=[
                {"call": "read", "args": {"page": 1}},
                {"call": "read", "args": {"page": 2}},
                {"call": "read", "args": {"page": 3}},
                {"call": "read", "args": {"page": 3}},
                {"user": "once more"},
                {"call": "read", "args": {"page": 3}},
            ],
            hits=[],
        ),
    )

    def __init__(self, params: NoRepeatedCallsParams) -> None:
        super().__init__(params)
        self._cycles = Cycles(params.min_period, params.max_period, params.times, params.again)
        self._by_tool = params.compare == "tool"

    def handlers(self) -> list[str]:
        """User messages are handled only where they reset the count."""
        return ["on_tool_call", "on_ungated", *(["on_user_message"] if self.params.user_resets else [])]

    def tools(self) -> sg.ToolPattern:
        """The tools that are looked at."""
        return self.params.tool

    def reads_args(self) -> bool:
        """Whether arguments make another call of it."""
        return not self._by_tool

    def on_user_message(self, _message: sg.UserMessage, state: NoRepeatedCallsState) -> None:
        """Reset the count: a person may ask for the same thing again."""
        state.symbols, state.runs = [], []

    def on_tool_call(self, call: sg.ToolCall, state: NoRepeatedCallsState) -> sg.Verdict:
        """Compare the call with those before it."""
        if not self._by_tool and call.args is None:
            return sg.Unsure("unevaluable", "arguments")
        symbol = short_digest(call.tool if self._by_tool else [call.tool, call.args])
        found = self._cycles.add(symbol, state.symbols, state.runs)
        if found is None:
            return None
        period, repeats = found
        evidence = {"tool": call.tool, "calls": period, "repeats": repeats}
        what = "the same call was made" if period == 1 else f"the same {period} calls were made"
        return sg.Hit(f"{what} {repeats} times in a row, the last time {call.tool}", evidence)

    def on_ungated(self, event: sg.Event, state: NoRepeatedCallsState) -> None:
        """Reset the count at a user message outside the gate too."""
        if isinstance(event, sg.UserMessage):
            self.on_user_message(event, state)
