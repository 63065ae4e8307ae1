"""Rules about agents that go round in circles: calls that repeat, and results that never change."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.bounds import MOST
from stream_guard_rules.digests import digest

Again: TypeAlias = Literal["doubling", "each", "once"]

LONGEST_PERIOD: Final = 6
_MOST_TOOLS: Final = 32
_SHORT: Final = 12  # characters of a digest that are kept
_AGAIN: Final = "when it fires again while the loop goes on: each time it has doubled, at each event, or not at all"


def is_due(repeats: int, times: int, again: Again) -> bool:
    """Whether a loop of so many repeats is a hit: at ``times``, and then as ``again`` says."""
    if again != "doubling" or repeats < times:
        return repeats >= times if again == "each" else repeats == times
    doubled, left = divmod(repeats, times)
    return left == 0 and doubled & (doubled - 1) == 0


class Cycles:
    """Finds the shortest block that the latest symbols repeat, from counters that do not grow with the trace.

    ``runs[p - 1]`` is how many of the latest symbols equal the one ``p`` places before them.
    """

    __slots__ = ("_again", "_longest", "_shortest", "_times")

    def __init__(self, shortest: int, longest: int, times: int, again: Again) -> None:
        self._shortest, self._longest, self._times, self._again = shortest, longest, times, again

    def add(self, symbol: str, symbols: list[str], runs: list[int]) -> tuple[int, int] | None:
        """Take a symbol; return period and repeats of a block that is a hit now."""
        if not runs:
            runs.extend([0] * self._longest)
        for period in range(1, self._longest + 1):
            same = len(symbols) >= period and symbols[-period] == symbol
            runs[period - 1] = min(runs[period - 1] + 1, MOST) if same else 0
        symbols.append(symbol)
        del symbols[: -self._longest]
        for period in range(self._shortest, self._longest + 1):
            length = runs[period - 1] + period
            whole = length % period == 0 or self._again == "each"
            if whole and is_due(length // period, self._times, self._again) and _is_primitive(period, runs):
                return period, length // period
        return None


def _is_primitive(period: int, runs: list[int]) -> bool:
    """Whether the block does not itself consist of a shorter one: AAAA is no cycle of two."""
    return not any(period % part == 0 and runs[part - 1] >= period - part for part in range(1, period))


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
    again: Again = Field(default="doubling", description=_AGAIN)
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
        """Messages of the user only where they count."""
        return ["on_tool_call", "on_ungated", *(["on_user_message"] if self.params.user_resets else [])]

    def tools(self) -> sg.ToolPattern:
        """The tools that are looked at."""
        return self.params.tool

    def on_user_message(self, _message: sg.UserMessage, state: NoRepeatedCallsState) -> None:
        """Begin anew: a person may ask for the same thing again."""
        state.symbols, state.runs = [], []

    def on_tool_call(self, call: sg.ToolCall, state: NoRepeatedCallsState) -> sg.Verdict:
        """Compare the call with those before it."""
        if not self._by_tool and call.args is None:
            return sg.Unsure("unevaluable", "arguments")
        symbol = digest(call.tool if self._by_tool else [call.tool, call.args])[:_SHORT]
        found = self._cycles.add(symbol, state.symbols, state.runs)
        if found is None:
            return None
        period, repeats = found
        evidence = {"tool": call.tool, "calls": period, "repeats": repeats}
        what = "the same call was made" if period == 1 else f"the same {period} calls were made"
        return sg.Hit(f"{what} {repeats} times in a row, the last time {call.tool}", evidence)

    def on_ungated(self, event: sg.Event, state: NoRepeatedCallsState) -> None:
        """Begin anew at a message of the user outside the gate too."""
        if isinstance(event, sg.UserMessage):
            self.on_user_message(event, state)


class NoRepeatedResultsParams(sg.Params):
    """Parameters of ``no_repeated_results``."""

    tool: sg.ToolPattern = Field(
        default=sg.ToolPattern("*"), description="the tools whose results are compared, each with its own"
    )
    times: int = Field(default=4, ge=2, le=1000, description="equal results in a row that are a loop")
    again: Again = Field(default="doubling", description=_AGAIN)


class NoRepeatedResultsState(sg.State):
    """For each tool the digest of its latest result, and how often it came in a row."""

    latest: dict[str, tuple[str, int]] = {}


class NoRepeatedResults(sg.Rule[NoRepeatedResultsParams, NoRepeatedResultsState]):
    """A tool must not return the same again and again, whatever it is called with.

    Whether it succeeded counts as part of the result. A blocked attempt has none. The latest 32 tools are remembered.
    """

    kind = "no_repeated_results"
    state_limit = 2048
    examples = (
        sg.Example(
            claim="the fourth equal result of a tool is a hit",
            params={},
            trace=[{"result": "fetch", "output": "page not found"}] * 5,
            hits=[3],
        ),
        sg.Example(
            claim="a result that differs begins a new count, and each tool has its own",
            params={"times": 2},
            trace=[
                {"result": "fetch", "output": "a"},
                {"result": "list", "output": "a"},
                {"result": "fetch", "output": "b"},
                {"result": "fetch", "output": "a"},
            ],
            hits=[],
        ),
    )

    def tools(self) -> sg.ToolPattern:
        """The tools whose results are compared."""
        return self.params.tool

    def needs(self) -> frozenset[sg.Need]:
        """The results."""
        return frozenset(("content",))

    def on_tool_result(self, result: sg.ToolResult, state: NoRepeatedResultsState) -> sg.Verdict:
        """Compare the result with the one before it."""
        if result.status == "blocked":
            return None
        if result.output is None:
            return sg.Unsure("unevaluable", "the output")
        tool, seen = digest(result.tool)[:_SHORT], digest([result.status, result.output])[:_SHORT]
        before, count = state.latest.pop(tool, ("", 0))
        count = min(count + 1, MOST) if before == seen else 1
        state.latest[tool] = seen, count
        if len(state.latest) > _MOST_TOOLS:
            del state.latest[next(iter(state.latest))]
        if not is_due(count, self.params.times, self.params.again):
            return None
        evidence = {"tool": result.tool, "repeats": count}
        return sg.Hit(f"{result.tool} returned the same {count} times in a row", evidence)


class MaxFailedRetriesParams(sg.Params):
    """Parameters of ``max_failed_retries``."""

    tool: sg.ToolPattern = Field(
        default=sg.ToolPattern("*"), description="the tools that are looked at: a name, a glob, or a list"
    )
    n: int = Field(default=3, ge=1, le=100, description="failures of the same call that are still fine")
    within_seconds: sg.Duration = Field(default=60.0, description="in which span they are counted, which is half-open")


class MaxFailedRetriesState(sg.State):
    """The latest attempts, each with the digest of its call, and for each call when it failed."""

    attempts: dict[int, str] = {}
    failures: dict[str, list[float]] = {}


class MaxFailedRetries(sg.Rule[MaxFailedRetriesParams, MaxFailedRetriesState]):
    """The same call must not fail more than ``n`` times ``within_seconds``: the same tool with the same arguments.

    It fires at the failure that is too many. The latest 32 open attempts and 16 failing calls are remembered.
    """

    kind = "max_failed_retries"
    state_limit = 32768
    examples = (
        sg.Example(
            claim="the failure that is too many is a hit",
            params={"n": 1},
            trace=[
                {"call": "fetch", "args": {"u": 1}, "id": "a", "at": 0},
                {"result": "fetch", "id": "a", "status": "error", "at": 1},
                {"call": "fetch", "args": {"u": 1}, "id": "b", "at": 2},
                {"result": "fetch", "id": "b", "status": "error", "at": 3},
            ],
            hits=[3],
        ),
        sg.Example(
            claim="other arguments are another call",
            params={"n": 1},
            trace=[
                {"call": "fetch", "args": {"u": 1}, "id": "a", "at": 0},
                {"result": "fetch", "id": "a", "status": "error", "at": 1},
                {"call": "fetch", "args": {"u": 2}, "id": "b", "at": 2},
                {"result": "fetch", "id": "b", "status": "error", "at": 3},
            ],
            hits=[],
        ),
    )

    def tools(self) -> sg.ToolPattern:
        """The tools that are looked at."""
        return self.params.tool

    def needs(self) -> frozenset[sg.Need]:
        """Arguments and a clock."""
        return frozenset(("content", "clock"))

    def on_tool_call(self, call: sg.ToolCall, state: MaxFailedRetriesState) -> sg.Verdict:
        """Remember which call it is."""
        if call.args is None:
            return sg.Unsure("unevaluable", "arguments")
        state.attempts[call.attempt] = digest([call.tool, call.args])[:_SHORT]
        if len(state.attempts) > _MOST_TOOLS:
            del state.attempts[next(iter(state.attempts))]
        return None

    def on_tool_result(self, result: sg.ToolResult, state: MaxFailedRetriesState) -> sg.Verdict:
        """Count a failure of the same call."""
        call = state.attempts.pop(result.attempt, None)
        if call is None or result.status != "error" or result.time is None:
            return None
        now, most = result.time, self.params.n + 1
        recent = [time for time in state.failures.pop(call, []) if time > now - self.params.within_seconds]
        state.failures[call] = recent = [*recent, now][-most:]
        if len(state.failures) > _MOST_TOOLS // 2:
            del state.failures[next(iter(state.failures))]
        if len(recent) < most:
            return None
        evidence = {"tool": result.tool, "failures": len(recent), "limit": self.params.n}
        return sg.Hit(f"the same call of {result.tool} failed {len(recent)} times", evidence)
