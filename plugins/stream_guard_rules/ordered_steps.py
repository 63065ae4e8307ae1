"""Rules about steps in time: what must not follow, what must follow, and silence."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.digests import digest

StepEvent: TypeAlias = Literal["call", "result", "turn", "user"]

_MOST_STEPS: Final = 8
_MOST_PENDING: Final = 64
_SHORT: Final = 12  # characters of a digest that are kept
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
        default=None, description="an event that begins anew: what came before it does not count"
    )


class NoSequenceState(sg.State):
    """How far the steps have come: for each, since when what leads to it has been there, and how many came."""

    starts: list[float | None] = []
    counts: list[int] = []
    firsts: list[float] = []


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


class NoSequence(sg.Rule[NoSequenceParams, NoSequenceState]):
    """The steps must not come one after the other; each event of the last step is a hit.

    Other events may lie in between. An event counts for one place in the order. Conditions are about the event
    itself, such as ``labels.x``, ``tool.args.x`` or ``tool.result.output.x``.
    """

    kind = "no_sequence"
    state_limit = 2048
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
        self._anew = None if params.unless_between is None else _Step(params.unless_between)
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

    def on_tool_call(self, call: sg.ToolCall, state: NoSequenceState) -> sg.Verdict:
        """Take a step."""
        return self._take(call, state)

    def on_tool_result(self, result: sg.ToolResult, state: NoSequenceState) -> sg.Verdict:
        """Take a step."""
        return self._take(result, state)

    def on_turn(self, turn: sg.Turn, state: NoSequenceState) -> sg.Verdict:
        """Take a step."""
        return self._take(turn, state)

    def on_user_message(self, message: sg.UserMessage, state: NoSequenceState) -> sg.Verdict:
        """Take a step."""
        return self._take(message, state)

    def _take(self, event: sg.Event, state: NoSequenceState) -> sg.Verdict:
        now = event.time or 0.0
        if not state.starts:
            state.starts, state.counts = [None] * self._last, [0] * (self._last + 1)
        if self._anew is not None and self._anew.fits(event):
            state.starts, state.counts, state.firsts = [None] * self._last, [0] * (self._last + 1), []
        hit = self._finish(event, now, state)
        # From the last to the first: an event that fits two steps does not lead to itself.
        for number in range(self._last - 1, -1, -1):
            if self._steps[number].fits(event):
                self._advance(number, now, state)
        if hit is None:
            for step in self._steps:
                if step.lacks(event):
                    return sg.Unsure("unevaluable", "a field that a step reads")
        return hit

    def _finish(self, event: sg.Event, now: float, state: NoSequenceState) -> sg.Hit | None:
        step = self._steps[self._last]
        if not step.fits(event):
            return None
        begun = state.starts if self.params.unordered else state.starts[-1:]
        for start in begun:
            if start is None or self._is_over(start, now):
                state.counts[self._last] = 0
                return None
        state.counts[self._last] = min(state.counts[self._last] + 1, step.at_least)
        if state.counts[self._last] < step.at_least:
            return None
        what = event.tool if isinstance(event, (sg.ToolCall, sg.ToolResult)) else step.on
        return sg.Hit(f"{what} is the last of {self._last + 1} steps", {"steps": self._last + 1, "last": what})

    def _advance(self, number: int, now: float, state: NoSequenceState) -> None:
        """Count an event of a step before the last; note since when the steps up to it have been there."""
        step = self._steps[number]
        if number == 0 or self.params.unordered:
            if step.at_least == 1:
                state.starts[number] = now
                return
            state.counts[number] = min(state.counts[number] + 1, step.at_least)
            if number == 0 and not self.params.unordered:
                state.firsts = [*state.firsts[1 - step.at_least :], now]
                state.starts[0] = state.firsts[0] if len(state.firsts) == step.at_least else None
            elif state.counts[number] == step.at_least:
                state.starts[number] = now
            return
        before = state.starts[number - 1]
        if before is None or self._is_over(before, now):
            state.counts[number] = 0
            return
        state.counts[number] += 1
        if state.counts[number] >= step.at_least:
            state.starts[number], state.counts[number] = before, 0

    def _is_over(self, start: float, now: float) -> bool:
        span = self.params.within_seconds
        return span is not None and now - start > span


class Awaited(sg.State):
    """One call that waits for what must follow."""

    key: str
    deadline: float
    index: int


class MustCallAfterParams(sg.Params):
    """Parameters of ``must_call_after``."""

    first: sg.ToolPattern = Field(description="the tools after which something must follow: a name, a glob, or a list")
    then: sg.ToolPattern = Field(description="the tools of which one must follow")
    within_seconds: sg.Duration = Field(description="how long it may take; exactly so late is too late")
    same_arg: str | None = Field(
        default=None, min_length=1, description="the argument that must be the same in both calls, a dotted path"
    )

    @field_validator("same_arg")
    @classmethod
    def _is_a_path(cls, path: str | None) -> str | None:
        if path is not None and not all(path.split(".")):
            raise PydanticCustomError("path", '"{path}" has an empty step', {"path": path})
        return path


class MustCallAfterState(sg.State):
    """The calls that wait."""

    pending: list[Awaited] = []


class MustCallAfter(sg.Rule[MustCallAfterParams, MustCallAfterState]):
    """After ``first``, ``then`` must be called within the time; the clock tells, however silent the session is.

    An attempt is enough. 64 calls that wait are remembered.
    """

    kind = "must_call_after"
    state_limit = 4096
    examples = (
        sg.Example(
            claim="a quote that nobody confirms is a hit when the time is up",
            params={"first": "create_quote", "then": "confirm", "within_seconds": 60, "same_arg": "quote_id"},
            trace=[
                {"call": "create_quote", "args": {"quote_id": 1}, "at": 0},
                {"call": "confirm", "args": {"quote_id": 2}, "at": 10},
                {"user": "hello", "at": 200},
            ],
            hits=["deadline"],
        ),
        sg.Example(
            claim="in time is fine",
            params={"first": "create_quote", "then": "confirm", "within_seconds": 60},
            trace=[{"call": "create_quote", "at": 0}, {"call": "confirm", "at": 59}, {"user": "hello", "at": 200}],
            hits=[],
        ),
    )

    def __init__(self, params: MustCallAfterParams) -> None:
        super().__init__(params)
        self._argument = sg.Path(f"tool.args.{params.same_arg}") if params.same_arg else None

    def tools(self) -> sg.ToolPattern:
        """The tools on both sides."""
        return sg.ToolPattern([*self.params.first.expanded, *self.params.then.expanded])

    def needs(self) -> frozenset[sg.Need]:
        """A clock, and arguments for ``same_arg``."""
        content: frozenset[sg.Need] = frozenset(("content",) if self._argument is not None else ())
        return content | frozenset(("clock",))

    def on_tool_call(self, call: sg.ToolCall, state: MustCallAfterState) -> sg.Verdict:
        """Take what waited off the list, or put the call on it."""
        if self._argument is not None and call.args is None:
            return sg.Unsure("unevaluable", "arguments")
        key = self._key(call)
        if self.params.then.matches(call.tool):
            state.pending = [one for one in state.pending if one.key != key]
        if self.params.first.matches(call.tool) and key is not None and call.time is not None:
            awaited = Awaited(key, call.time + self.params.within_seconds, call.index)
            state.pending = [*state.pending[1 - _MOST_PENDING :], awaited]
        return None

    def on_ungated(self, event: sg.Event, state: MustCallAfterState) -> None:
        """Take what waited off the list outside the gate too."""
        if isinstance(event, sg.ToolCall) and self.params.then.matches(event.tool):
            state.pending = [one for one in state.pending if one.key != self._key(event)]

    def deadline(self, state: MustCallAfterState) -> float | None:
        """The earliest time that runs out."""
        return min((one.deadline for one in state.pending), default=None)

    def on_deadline(self, time: float, state: MustCallAfterState) -> sg.Hit | None:
        """Fire for what has waited too long."""
        late = [one for one in state.pending if one.deadline <= time]
        state.pending = [one for one in state.pending if one.deadline > time]
        return self._hit(late)

    def on_session_end(self, _end: sg.SessionEnd, state: MustCallAfterState) -> sg.Hit | None:
        """Fire for what still waits."""
        return self._hit(state.pending)

    def _hit(self, late: list[Awaited]) -> sg.Hit | None:
        if not late:
            return None
        what = f"{self.params.then.text} did not follow {self.params.first.text} in time"
        return sg.Hit(what, {"waiting": len(late), "wanted": self.params.then.text}, late[0].index)

    def _key(self, call: sg.ToolCall) -> str | None:
        if self._argument is None:
            return ""
        value = self._argument.find(call)
        return None if value is sg.MISSING else digest(value)[:_SHORT]


class MustNotStallParams(sg.Params):
    """Parameters of ``must_not_stall``."""

    within_seconds: sg.Duration = Field(description="how long there may be no turn, call or result; the clock tells")


class MustNotStallState(sg.State):
    """When the session last moved; nothing while it need not move."""

    last: float | None = None


class MustNotStall(sg.Rule[MustNotStallParams, MustNotStallState]):
    """An agent that is at work must not fall silent.

    It is at work from a user's message, a turn, a call or a result until a turn that ends for good: one whose stop
    reason is none of those that ask for tools. With ``scope: run``, each run is watched by itself.
    """

    kind = "must_not_stall"
    state_limit = 16
    examples = (
        sg.Example(
            claim="silence after a call is a hit when the time is up",
            params={"within_seconds": 120},
            trace=[{"call": "look", "at": 0}, {"user": "hello?", "at": 300}, {"turn": "Yes.", "at": 301}],
            hits=["deadline"],
        ),
        sg.Example(
            claim="an agent that has answered may be silent",
            params={"within_seconds": 120},
            trace=[
                {"call": "look", "at": 0},
                {"turn": "Done.", "at": 100},
                {"user": "thanks", "at": 900},
                {"turn": "Bye.", "at": 901},
            ],
            hits=[],
        ),
    )

    def needs(self) -> frozenset[sg.Need]:
        """A clock."""
        return frozenset(("clock",))

    def on_user_message(self, message: sg.UserMessage, state: MustNotStallState) -> None:
        """The agent has something to do."""
        state.last = message.time

    def on_turn(self, turn: sg.Turn, state: MustNotStallState) -> None:
        """The agent goes on, or is done."""
        reason = turn.response.get("stop_reason")
        done = reason is not None and reason not in ("tool_use", "tool_calls", "pause_turn") and not turn.tools
        state.last = None if done else turn.time

    def on_tool_call(self, call: sg.ToolCall, state: MustNotStallState) -> None:
        """The agent moves."""
        state.last = call.time

    def on_tool_result(self, result: sg.ToolResult, state: MustNotStallState) -> None:
        """The agent moves."""
        state.last = result.time

    def deadline(self, state: MustNotStallState) -> float | None:
        """The time at which the silence is too long."""
        return None if state.last is None else state.last + self.params.within_seconds

    def on_deadline(self, _time: float, state: MustNotStallState) -> sg.Hit | None:
        """Fire once for one silence."""
        state.last = None
        seconds = self.params.within_seconds
        return sg.Hit(f"nothing came for {seconds:g} seconds", {"seconds": seconds})
