"""Rules about how often tools may be called, and how long answers may be."""

from __future__ import annotations

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.bounds import MOST

REMEMBERED = 64  # open calls of one turn


class MaxCallsParams(sg.Params):
    """Parameters of ``max_calls``."""

    tool: sg.ToolPattern = Field(
        default=sg.ToolPattern("*"), description="the tools that are counted together: a name, a glob, or a list"
    )
    n: int = Field(ge=0, le=MOST, description="calls that are still fine")


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
        state.calls = min(state.calls + 1, MOST)
        if state.calls <= self.params.n:
            return None
        evidence = {"tool": call.tool, "calls": state.calls, "limit": self.params.n}
        return sg.Hit(f"{call.tool} is call {state.calls} where {self.params.n} are allowed", evidence)


class MaxFailedCallsParams(sg.Params):
    """Parameters of ``max_failed_calls``."""

    tool: sg.ToolPattern = Field(description="the tools whose failures are counted: a name, a glob, or a list")
    n: int = Field(ge=1, le=MOST, description="failures after which it must not be tried again")


class MaxFailedCallsState(sg.State):
    """How many attempts failed."""

    failures: int = 0


class MaxFailedCalls(sg.Rule[MaxFailedCallsParams, MaxFailedCallsState]):
    """``tool`` must not be tried again once ``n`` attempts at it have failed; a blocked attempt is no failure."""

    kind = "max_failed_calls"
    state_limit = 16
    examples = (
        sg.Example(
            claim="an attempt after the last allowed failure is a hit",
            params={"tool": "log_in", "n": 1},
            trace=[
                {"call": "log_in", "id": "a"},
                {"result": "log_in", "id": "a", "status": "error"},
                {"call": "log_in"},
            ],
            hits=[2],
        ),
        sg.Example(
            claim="attempts that succeed are free",
            params={"tool": "log_in", "n": 1},
            trace=[{"call": "log_in", "id": "a"}, {"result": "log_in", "id": "a"}, {"call": "log_in"}],
            hits=[],
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
            state.failures = min(state.failures + 1, MOST)

    def on_ungated(self, event: sg.Event, state: MaxFailedCallsState) -> None:
        """Count failures outside the gate too."""
        if isinstance(event, sg.ToolResult):
            self.on_tool_result(event, state)


class MaxParallelCallsParams(sg.Params):
    """Parameters of ``max_parallel_calls``."""

    n: int = Field(default=1, ge=1, le=REMEMBERED, description="calls that may be open at the same time")


class MaxParallelCallsState(sg.State):
    """The attempts of the current turn that have no result yet."""

    turn: int = -1
    open: list[int] = []


class MaxParallelCalls(sg.Rule[MaxParallelCallsParams, MaxParallelCallsState]):
    """No more than ``n`` calls may be open at the same time: begun, and without a result.

    Only calls of one turn count as parallel, because a source may leave results out.
    """

    kind = "max_parallel_calls"
    state_limit = 1024
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
            state.turn, state.open = call.index, []
        state.open = [*state.open[1 - REMEMBERED :], call.attempt]
        if len(state.open) <= self.params.n:
            return None
        evidence = {"tool": call.tool, "open": len(state.open), "limit": self.params.n}
        detail = f"{call.tool} was called while {len(state.open) - 1} other calls had no result"
        return sg.Hit(detail, evidence, advice="wait for a result")

    def on_tool_result(self, result: sg.ToolResult, state: MaxParallelCallsState) -> None:
        """Close the call."""
        state.open = [attempt for attempt in state.open if attempt != result.attempt]

    def on_ungated(self, event: sg.Event, state: MaxParallelCallsState) -> None:
        """Close calls whose results stand outside the gate."""
        if isinstance(event, sg.ToolResult):
            self.on_tool_result(event, state)


class MaxTextLengthParams(sg.Params):
    """Parameters of ``max_text_length``."""

    words: int | None = Field(default=None, ge=0, description="words that are still fine")
    characters: int | None = Field(default=None, ge=0, description="characters that are still fine")

    @model_validator(mode="after")
    def _says_what(self) -> MaxTextLengthParams:
        if self.words is None and self.characters is None:
            raise PydanticCustomError("max_text_length", 'write "words", "characters" or both')
        return self


class MaxTextLength(sg.Rule[MaxTextLengthParams, sg.NoState]):
    """No response may be longer than ``words`` or ``characters``; words are what white space separates."""

    kind = "max_text_length"
    examples = (
        sg.Example(
            claim="each response that is too long is a hit",
            params={"words": 3},
            trace=[{"turn": "It is on its way."}, {"turn": "Here it is."}],
            hits=[0],
        ),
        sg.Example(claim="equal is fine", params={"characters": 5}, trace=[{"turn": "Hello"}], hits=[]),
    )

    def needs(self) -> frozenset[sg.Need]:
        """The responses' text."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | None:
        """Measure the text."""
        sizes = {"words": len(turn.text.split()), "characters": len(turn.text)}
        for unit, limit in (("words", self.params.words), ("characters", self.params.characters)):
            if limit is not None and sizes[unit] > limit:
                return sg.Hit(f"the response has {sizes[unit]} {unit}, {limit} are allowed", {**sizes, "limit": limit})
        return None

    def shortfall(self, event: sg.Event, _state: sg.NoState) -> sg.Shortfall | None:
        """How long the response is."""
        if not isinstance(event, sg.Turn):
            return None
        sizes = {"words": len(event.text.split()), "characters": len(event.text)}
        limits = {"words": self.params.words, "characters": self.params.characters}
        asked = [(sizes[unit] / (limit + 1), unit, limit) for unit, limit in limits.items() if limit is not None]
        share, unit, limit = max(asked)
        return sg.Shortfall(f"{sizes[unit]:,} {unit} of {limit:,}", share)
