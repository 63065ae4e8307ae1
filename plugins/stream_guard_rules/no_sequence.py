"""Steps do not come one after the other."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg

StepEvent: TypeAlias = Literal["call", "result", "turn", "user"]

_MOST_STEPS: Final = 8
_NAMED: Final = 40  # characters of a tool that are remembered
_EVENTS: Final[dict[str, type[sg.Event]]] = {
    "call": sg.ToolCall,
    "result": sg.ToolResult,
    "turn": sg.Turn,
    "user": sg.UserMessage,
}


class StepParams(sg.Params):
    """One step: an event that meets all that is written."""

    on: StepEvent = Field(default="call", description="what it is: a call, a result, a turn or a message of the user")
    tool: sg.ToolPattern | None = Field(default=None, description="of which tool: a name, a glob, a class, or a list")
    when: sg.Condition | None = Field(default=None, description="conditions over the event itself")
    at_least: int = Field(default=1, ge=1, le=100, description="how many of them make the step")

    @model_validator(mode="after")
    def _has_a_tool(self) -> StepParams:
        if self.tool is not None and self.on in {"turn", "user"}:
            message = '"tool" is about calls and results; leave it out, or write "on": "call" or "on": "result"'
            raise PydanticCustomError("tool", message)
        return self


class NoSequenceParams(sg.Params):
    """Parameters of ``no_sequence``."""

    steps: list[StepParams] = Field(
        min_length=2, max_length=_MOST_STEPS, description="the steps, the last of which is a hit"
    )
    within_seconds: sg.Duration | None = Field(
        default=None, description="how long the whole may take; without it, as long as the session"
    )
    unordered: bool = Field(default=False, description="the steps before the last may come in any order")
    unless_between: StepParams | None = Field(
        default=None,
        description="an event that begins anew: what came before it does not count; with `at_least`, so many of them "
        "must lie between the first step and the last",
    )


class Began(sg.State):
    """Where a chain of steps began: the time of its first event, and how many events had begun anew until then."""

    time: float
    resets: int


class NoSequenceState(sg.State):
    """Progress of the steps: where the latest chains began that end in 1, 2, ... events of each step; what came."""

    chains: list[list[Began]] = []
    resets: int = 0
    trails: list[list[str]] = []


class NoSequence(sg.Rule[NoSequenceParams, NoSequenceState]):
    """The steps must not come one after the other; each event of the last step is a hit.

    Other events may lie in between. An event counts for one place in the order; of all ways to choose the events,
    the one that begins last counts for ``within_seconds`` and ``unless_between``. Conditions are about the event
    itself, such as ``labels.x``, ``tool.args.x`` or ``tool.result.output.x``.
    """

    kind = "no_sequence"
    state_version = 2
    state_limit = 20480
    examples = (
        sg.Example(
            claim="a grant and its use within the time is a hit",
            params={"steps": [{"tool": "grant"}, {"tool": "delete_*"}], "within_seconds": 60},
            trace=[{"call": "grant", "at": 0}, {"call": "list", "at": 5}, {"call": "delete_user", "at": 60}],
            hits=[2],
        ),
        sg.Example(
            claim="the steps before the last may come in any order",
            params={
                "steps": [
                    {"on": "result", "when": {"path": "labels.private", "op": "exists"}},
                    {"on": "result", "when": {"path": "labels.untrusted", "op": "exists"}},
                    {"tool": "send"},
                ],
                "unordered": True,
            },
            trace=[
                {"result": "browse", "labels": {"untrusted": "1"}},
                {"call": "send"},
                {"result": "read", "labels": {"private": "1"}},
                {"call": "send"},
            ],
            hits=[3],
        ),
        sg.Example(
            claim="too late is fine, and so is what a user comes between",
            params={
                "steps": [{"tool": "grant", "at_least": 2}, {"tool": "delete_*"}],
                "within_seconds": 60,
                "unless_between": {"on": "user"},
            },
            trace=[
                {"call": "grant", "at": 0},
                {"call": "delete_user", "at": 1},
                {"call": "grant", "at": 2},
                {"call": "delete_user", "at": 61},
                {"call": "grant", "at": 62},
                {"user": "go on", "at": 63},
                {"call": "delete_user", "at": 64},
            ],
            hits=[],
        ),
    )

    def __init__(self, params: NoSequenceParams) -> None:
        super().__init__(params)
        self._last = len(params.steps) - 1
        self._steps = [_Step(step) for step in params.steps]
        self._reset_step = None if params.unless_between is None else _Step(params.unless_between)
        self._all = [*params.steps, *([params.unless_between] if params.unless_between else [])]
        used = {step.on for step in self._all}
        names = {"call": "on_tool_call", "result": "on_tool_result", "turn": "on_turn", "user": "on_user_message"}
        self._handlers = [names[on] for on in sorted(used)]

    def handlers(self) -> list[str]:
        """Those of the events that steps are about."""
        return self._handlers

    def tools(self) -> sg.ToolPattern | None:
        """Those of the steps, unless one is about calls or results of any tool."""
        about = [step.tool for step in self._all if step.on in ("call", "result")]
        named = [tool for tool in about if tool is not None]
        return sg.ToolPattern([name for tool in named for name in tool.expanded]) if len(named) == len(about) else None

    def needs(self) -> frozenset[sg.Need]:
        """A clock for ``within_seconds``, content where a condition reads it."""
        content = any(leaf.path.reads_content for step in self._all if step.when for leaf in step.when.leaves)
        clock: frozenset[sg.Need] = frozenset(("clock",) if self.params.within_seconds is not None else ())
        return clock | frozenset(("content",) if content else ())

    def rests_on_memory(self, call: sg.ToolCall) -> bool:
        """Whether the call may be the last step."""
        return self._steps[self._last].fits(call)

    def on_tool_call(self, call: sg.ToolCall, state: NoSequenceState) -> sg.Verdict:
        """Take a step."""
        return self._advance_all(call, state)

    def on_tool_result(self, result: sg.ToolResult, state: NoSequenceState) -> sg.Verdict:
        """Take a step."""
        return self._advance_all(result, state)

    def on_turn(self, turn: sg.Turn, state: NoSequenceState) -> sg.Verdict:
        """Take a step."""
        return self._advance_all(turn, state)

    def on_user_message(self, message: sg.UserMessage, state: NoSequenceState) -> sg.Verdict:
        """Take a step."""
        return self._advance_all(message, state)

    def _advance_all(self, event: sg.Event, state: NoSequenceState) -> sg.Verdict:
        if not state.chains:
            state.chains, state.trails = [[] for _ in self._steps], [[] for _ in self._steps]
        if self._reset_step is not None and self._reset_step.fits(event):
            state.resets += 1
        fits_last = False
        # From the last to the first: an event that fits two steps does not lead to itself.
        for number in range(self._last, -1, -1):
            if self._steps[number].fits(event):
                self._take(number, event, state)
                fits_last = fits_last or number == self._last
        if fits_last and self._is_chain(state, event.time or 0.0):
            return self._hit(state)
        for step in self._steps:
            if step.lacks(event):
                return sg.Unsure("unevaluable", "a field that a step reads")
        return None

    def _take(self, number: int, event: sg.Event, state: NoSequenceState) -> None:
        """Let the chains that end in this step be longer by the event."""
        step, chains = self._steps[number], state.chains
        began = self._chain_before(number, event.time or 0.0, state)
        if began is None:
            return
        chains[number] = [began, *chains[number][: step.at_least - 1]]
        if len(chains[number]) == step.at_least:
            before = [] if number == 0 else state.trails[number - 1]
            if self.params.unordered:
                before = [name for trail in state.trails[:-1] for name in trail] if number == self._last else []
            state.trails[number] = [*before, step.name(event)]

    def _chain_before(self, number: int, now: float, state: NoSequenceState) -> Began | None:
        """Return where the chain began that an event of this step goes on with; None: there is none yet."""
        if number == 0 or (self.params.unordered and number < self._last):
            return Began(now, state.resets)
        complete = range(self._last) if self.params.unordered else range(number - 1, number)
        found = [state.chains[one][-1] for one in complete if len(state.chains[one]) == self._steps[one].at_least]
        if len(found) < len(complete):
            return None
        return Began(min(one.time for one in found), min(one.resets for one in found))

    def _is_chain(self, state: NoSequenceState, now: float) -> bool:
        """Whether all steps came, in time, and with too little in between that begins anew."""
        ended = state.chains[self._last]
        if len(ended) < self._steps[self._last].at_least:
            return False
        span, reset = self.params.within_seconds, self._reset_step
        is_in_time = span is None or now - ended[-1].time <= span
        return is_in_time and (reset is None or state.resets - ended[-1].resets < reset.at_least)

    def _hit(self, state: NoSequenceState) -> sg.Hit:
        *before, last = state.trails[self._last]
        joined = " and ".join(before) if self.params.unordered else ", then ".join(before)
        return sg.Hit(f"{joined}, then {last}", {"steps": [*before, last]})


class _Step:
    """A step, ready to be held against events."""

    __slots__ = ("_kind", "_tool", "_when", "at_least", "on")

    def __init__(self, params: StepParams) -> None:
        self.on: str = params.on
        self.at_least = params.at_least
        self._kind = _EVENTS[params.on]
        self._tool = params.tool
        self._when = params.when

    def fits(self, event: sg.Event) -> bool:
        """Whether the event is one of this step."""
        return self._is_about(event) and (self._when is None or self._when.holds(event))

    def name(self, event: sg.Event) -> str:
        """Return the step as a reader is told of it, by the event that made it."""
        tool = event.tool[:_NAMED] if isinstance(event, (sg.ToolCall, sg.ToolResult)) else ""
        what = {"call": tool, "result": f"a result of {tool}", "turn": "a response", "user": "a message of the user"}
        return what[self.on] if self.at_least == 1 else f"{self.at_least} x {what[self.on]}"

    def lacks(self, event: sg.Event) -> bool:
        """Whether the event leaves out a field that the step's conditions read."""
        if self._when is None or not self._is_about(event):
            return False
        return any(leaf.path.lacks is not None and leaf.path.lacks(event) for leaf in self._when.leaves)

    def _is_about(self, event: sg.Event) -> bool:
        if not isinstance(event, self._kind):
            return False
        if self._tool is None:
            return True
        return self._tool.matches(event.tool if isinstance(event, (sg.ToolCall, sg.ToolResult)) else "")
