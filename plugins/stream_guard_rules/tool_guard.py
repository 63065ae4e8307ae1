"""Rules about attempts: which tool, with which arguments, and how often."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Any, Final, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.digests import digest
from stream_guard_rules.kleene import Compiler, Numbers
from stream_guard_rules.predicates import MOST_IN_WINDOW, When, given

_MOST_COUNTERS: Final = 16
_MOST_RUNS: Final = 128  # of one session, whose counts are kept; the one that has been silent longest goes first
_PLAIN_NAME: Final = frozenset("*?|()@")
_NO_NUMBERS: Final[Numbers] = []


class ToolGuardParams(sg.Params):
    """Parameters of ``tool_guard``."""

    when: When = Field(description="predicates over the attempt, all of which must hold; without any it matches none")
    enforce_window: Literal["followup", "inline"] = Field(
        default="followup",
        description="where call_count_in_window_gt counts: on the follow-up path only, or in the inline gate as well",
    )
    coerce: bool = Field(default=False, description="comparisons also take a text that reads as a number")

    @model_validator(mode="after")
    def _fits(self) -> ToolGuardParams:
        compiler = Compiler(coerce=self.coerce)
        compiler.compile(self.when)
        if len(compiler.counters) > _MOST_COUNTERS:
            message = "counts {found} things, {most} at most; split the rule"
            raise PydanticCustomError("counters", message, {"found": len(compiler.counters), "most": _MOST_COUNTERS})
        if sum(counter.most for counter in compiler.counters) > MOST_IN_WINDOW + 1:
            message = "its windows would have to remember more than {most} attempts; split the rule"
            raise PydanticCustomError("windows", message, {"most": MOST_IN_WINDOW})
        return self


class Attempts(sg.State):
    """What was counted: in the session, in each run, and when in each window, counter by counter."""

    session: list[int] = []
    runs: dict[str, list[int]] = {}
    windows: list[list[float]] = []


class ToolGuard(sg.Rule[ToolGuardParams, Attempts]):
    """An attempt at a tool that meets all predicates of ``when`` is a hit.

    Counts are strictly greater, include the attempt itself, blocked attempts and, with a gate, those outside it.
    A window needs event time and is no inline gate: what it alone decides is for the follow-up path, unless
    ``enforce_window: inline``. Comparisons of numbers do not hold for other types, and that is counted.
    """

    kind = "tool_guard"
    state_limit = 65_536
    examples = (
        sg.Example(
            claim="an argument over the threshold is a hit",
            params={"when": {"tool_name_in": ["transfer"], "arg_gt": {"path": "amount", "value": 100}}},
            trace=[{"call": "transfer", "args": {"amount": 100}}, {"call": "transfer", "args": {"amount": 101}}],
            hits=[1],
        ),
        sg.Example(
            claim="the third attempt in one run is a hit",
            params={"when": {"call_count_in_run_gt": {"tool": "pay", "value": 2}}},
            trace=[{"call": "pay"}, {"call": "pay"}, {"call": "look"}, {"call": "pay"}],
            hits=[3],
        ),
        sg.Example(
            claim="a burst is a hit, the same calls at leisure are not",
            params={"when": {"call_count_in_window_gt": {"value": 1, "windowSeconds": 60}}},
            trace=[{"call": "send", "at": 0}, {"call": "send", "at": 60}, {"call": "send", "at": 119}],
            hits=[2],
        ),
        sg.Example(
            claim="without predicates nothing is meant", params={"when": {}}, trace=[{"call": "transfer"}], hits=[]
        ),
    )

    def __init__(self, params: ToolGuardParams) -> None:
        super().__init__(params)
        compiler = Compiler(coerce=params.coerce)
        self._test = compiler.compile(params.when)
        self._counters = tuple(compiler.counters)
        self._has_runs = any(one.scope == "run" for one in self._counters)
        self._one_scope = {one.scope for one in self._counters} in ({"run"}, {"session"})
        self._deferred = params.enforce_window == "followup" and any(one.scope == "window" for one in self._counters)

    def tools(self) -> sg.ToolPattern | None:
        """The tools it names, where an attempt at another could neither match nor count."""
        names = _named(self.params.when)
        counted = [counter.tool for counter in self._counters]
        if names is None or None in counted:
            return None
        wanted = sorted(names.union(tool for tool in counted if tool is not None))
        # Names are exact here; one that reads as a glob or a class would mean something else as a pattern.
        return None if any(_PLAIN_NAME & set(name) for name in wanted) else sg.ToolPattern(wanted)

    def on_tool_call(self, call: sg.ToolCall, state: Attempts) -> sg.Hit | sg.Unsure | None:
        """Count the attempt, then ask whether it is meant."""
        numbers = self._count(call, state) if self._counters else _NO_NUMBERS
        notes: list[str] = []
        said = self._test(call, numbers, notes)
        if not said:
            if notes:
                return sg.Unsure("type_mismatch" if notes[0] == "type_mismatch" else "unevaluable")
            return sg.Unsure("unevaluable") if said is None and None in numbers else None
        evidence: dict[str, Any] = {"tool": call.tool}
        if numbers:
            evidence["counts"] = list(numbers)
        return sg.Hit(
            f"an attempt at {call.tool} meets the conditions", evidence, followup=self._rests_on_window(call, numbers)
        )

    def on_ungated(self, event: sg.Event, state: Attempts) -> None:
        """Count attempts that others make: a session's count spans all of them."""
        if self._counters and isinstance(event, sg.ToolCall):
            self._count(event, state)

    def _rests_on_window(self, call: sg.ToolCall, numbers: Numbers) -> bool:
        """Whether it would not be known to match if the windows were unknown, as they are to an inline gate."""
        if not self._deferred:
            return False
        seen_inline = [
            None if counter.scope == "window" else number
            for counter, number in zip(self._counters, numbers, strict=True)
        ]
        return not self._test(call, seen_inline, [])

    def _count(self, call: sg.ToolCall, state: Attempts) -> Numbers:
        """Count the attempt everywhere it belongs, whatever the predicates say; return where the counters stand."""
        session = state.session
        if not session:
            session = state.session = [0] * len(self._counters)
            state.windows = [[] for counter in self._counters if counter.scope == "window"]
        run = _run_of(call, state, len(session)) if self._has_runs else session
        if self._one_scope:
            for position, counter in enumerate(self._counters):
                if counter.tool is None or counter.tool == call.tool:
                    run[position] += 1
            return run
        numbers: list[int | None] = []
        window = 0
        for position, (scope, tool, seconds, most) in enumerate(self._counters):
            mine = tool is None or tool == call.tool
            if scope == "window":
                numbers.append(_in_window(call.time, state.windows[window], seconds, most if mine else 0))
                window += 1
                continue
            counted = run if scope == "run" else session
            if mine:
                counted[position] += 1
            numbers.append(counted[position])
        return numbers


def _run_of(call: sg.ToolCall, state: Attempts, counters: int) -> list[int]:
    """Return the counts of the call's run, which is then the one that spoke last."""
    runs, run = state.runs, call.run_id
    if len(run) > 64:
        run = f"#{digest(run)}"
    counted = runs.get(run)
    if counted is None:
        counted = runs[run] = [0] * counters
        if len(runs) > _MOST_RUNS:
            del runs[next(iter(runs))]
    elif len(runs) > 1:
        del runs[run]
        runs[run] = counted
    return counted


def _in_window(now: float | None, times: list[float], seconds: float, most: int) -> int | None:
    """Note the attempt, unless ``most`` is 0, and return how many lie in the window that ends now."""
    if now is None:
        return None
    if most:
        insort(times, now)
        del times[:-most]
    # Half-open: an attempt exactly `seconds` old has left it.
    return bisect_right(times, now) - bisect_right(times, now - seconds)


def _named(when: When) -> frozenset[str] | None:
    """Return the tools that a match needs one of, or None when it could be any."""
    found: frozenset[str] | None = None
    for name, value in given(when):
        parts = [_named(inner) for inner in value] if name == "all_of" else []
        if name == "tool_name_in":
            parts = [frozenset(value)]
        for part in parts:
            if part is not None:
                found = part if found is None else found & part
    return found
