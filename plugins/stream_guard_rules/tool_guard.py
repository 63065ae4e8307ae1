"""An attempt at a tool is judged by its name, its arguments and how often it was made."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import Any, Final, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.json_values import digest
from stream_guard_rules.shared.lost_memory import FORGOTTEN, evict_oldest, was_forgotten
from stream_guard_rules.shared.predicate_tests import Compiler, Numbers, reachable_tools
from stream_guard_rules.shared.predicates import (
    MOST_IN_WINDOW,
    Count,
    Matching,
    PredicateWords,
    When,
    counter_of,
    counters_of,
    predicates_of,
    reads_args,
    what_would_pass,
)

_MOST_COUNTERS: Final = 16
_MOST_RUNS: Final = 128  # of one session, whose counts are kept; the one that has been silent longest goes first
_NO_NUMBERS: Final[Numbers] = []
_ZERO_COUNT: Final[Numbers] = [0]


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
        counters = counters_of(self.when)
        if len(counters) > _MOST_COUNTERS:
            message = "counts {found} things, {most} at most; split the rule"
            raise PydanticCustomError("counters", message, {"found": len(counters), "most": _MOST_COUNTERS})
        if sum(counter.most for counter in counters) > MOST_IN_WINDOW + 1:
            message = "its windows would have to remember more than {most} attempts; split the rule"
            raise PydanticCustomError("windows", message, {"most": MOST_IN_WINDOW})
        return self


class ToolGuardState(sg.State):
    """The attempts counted in the session and in each run, and the times of those in each window, by counter."""

    session: list[int] = []
    runs: dict[str, list[int]] = {}
    windows: list[list[float]] = []
    forgotten: sg.Sketch | None = None  # runs whose counts were forgotten


class ToolGuard(sg.Rule[ToolGuardParams, ToolGuardState]):
    """An attempt at a tool that meets all predicates of ``when`` is a hit.

    A count must be greater than its value. It includes the attempt itself, blocked attempts and, with a gate, those
    outside it. Of a session, the counts of 128 runs are kept; a run that was forgotten is not judged by its count. A
    window needs event time. What a window alone decides is left to the follow-up path, unless
    ``enforce_window: inline``. Comparisons of numbers do not hold for other types, and that is counted.
    """

    kind = "tool_guard"
    state_limit = 69_632
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
        self._counters = tuple(counters_of(params.when))
        self._test = Compiler(self._counters, coerce=params.coerce).compile(params.when)
        scopes = {one.scope for one in self._counters}
        self._has_runs = "run" in scopes
        self._single_counter = self._counters[0] if len(self._counters) == 1 else None
        self._has_single_run_counter = self._has_runs and self._single_counter is not None
        self._counted_tool = self._single_counter.tool if self._single_counter is not None else None
        self._window_counter = self._single_counter if "window" in scopes else None
        self._counts_in_windows = "window" in scopes
        self._deferred = params.enforce_window == "followup" and self._counts_in_windows
        written = list(predicates_of(params.when))
        alone = written[0][1] if len(written) == 1 else None
        # The count alone decides where it is the only predicate.
        self._allowed_count: int | None = alone.value if isinstance(alone, Count) else None
        self._text_predicate = alone if isinstance(alone, Matching) else None
        self._advice = what_would_pass(params.when)
        if not self._counters:
            self.state_type = sg.NoState  # it looks at the attempt alone, as most rules do

    def handlers(self) -> tuple[str, ...]:
        """Tool calls; with counters, events outside the gate too."""
        return ("on_tool_call", "on_ungated") if self._counters else ("on_tool_call",)

    def tools(self) -> sg.ToolFilter | None:
        """The tools it names, where attempts at other tools can neither match nor count."""
        return reachable_tools(self.params.when, self._test, [counter.tool for counter in self._counters])

    def texts(self) -> Sequence[sg.TextPattern]:
        """The pattern, where it is the only predicate: the engine searches for all texts together."""
        predicate = self._text_predicate
        if predicate is None:
            return ()
        return [sg.TextPattern("tool_args", predicate.pattern.pattern, sg.Path(f"tool.args.{predicate.path}"))]

    def needs(self) -> frozenset[sg.Need]:
        """Content, if it only looks for a text; otherwise it may be decided without the arguments."""
        return frozenset(("content",) if self._text_predicate else ())

    def reads_args(self) -> bool:
        """Whether a predicate is about an argument."""
        return reads_args(self.params.when)

    def goes_by_time(self) -> bool:
        """Whether it counts in a window that an inline gate goes by."""
        return self._counts_in_windows and not self._deferred

    def on_tool_call(self, call: sg.ToolCall, state: ToolGuardState) -> sg.Verdict:
        """Count the attempt, then test it."""
        numbers: Numbers
        if self._has_single_run_counter and len(state.runs) == 1 and (known := state.runs.get(call.run_id)) is not None:
            # The common case takes a short path: one counter, and one run in the session.
            if self._counted_tool is None or self._counted_tool == call.tool:
                known[0] += 1
            if self._allowed_count is not None and known[0] <= self._allowed_count:
                return None
            numbers = known
        elif self._window_counter is not None and state.session:
            _, tool, seconds, most = self._window_counter
            is_counted = tool is None or tool == call.tool
            numbers = (_in_window(call.time, state.windows[0], seconds, most if is_counted else 0),)
        elif not self._counters:
            return self._judged(call, _NO_NUMBERS)
        else:
            numbers = self._count(call, state)
            if self._has_runs and state.forgotten is not None and self._hangs_on_forgotten(call, numbers, state):
                return FORGOTTEN
        if self._allowed_count is not None and (number := numbers[0]) is not None and number <= self._allowed_count:
            return None
        return self._judged(call, numbers)

    def _hangs_on_forgotten(self, call: sg.ToolCall, numbers: Numbers, state: ToolGuardState) -> bool:
        """Whether the count of a run that was forgotten decides: what was counted since does not make it a hit."""
        if not was_forgotten(_run_name(call), state):
            return False
        pairs = zip(self._counters, numbers, strict=True)
        unknown = [None if counter.scope == "run" else number for counter, number in pairs]
        return not self._test(call, numbers, []) and self._test(call, unknown, []) is None

    def _judged(self, call: sg.ToolCall, numbers: Numbers) -> sg.Verdict:
        """Test an attempt that was counted."""
        notes: list[str] = []
        answer = self._test(call, numbers, notes)
        if answer:
            return self._hit(call, numbers, followup=self._depends_on_window(call, numbers))
        if not notes and (answer is not None or not self._counters):
            return None
        if answer is None and "unevaluable" in notes:
            return sg.Unsure("unevaluable", "arguments", followup=self._could_match_by_window(call, numbers))
        if "type_mismatch" in notes:
            return sg.Unsure("type_mismatch")
        # An inline gate knows no window by design: an unknown one stops an attempt only with `enforce_window: inline`.
        unknown = answer is None and None in numbers
        return sg.Unsure("unevaluable", "a time", followup=self._deferred) if unknown else None

    def on_ungated(self, event: sg.Event, state: ToolGuardState) -> None:
        """Count attempts outside the gate: a session's count spans all of them."""
        if isinstance(event, sg.ToolCall):
            self._count(event, state)

    def _depends_on_window(self, call: sg.ToolCall, numbers: Numbers) -> bool:
        """Whether a match depends on a window, which an inline gate does not know."""
        if not self._deferred:
            return False
        return not self._test(call, self._with_windows_as(None, numbers), [])

    def _could_match_by_window(self, call: sg.ToolCall, numbers: Numbers) -> bool:
        """Whether an attempt with unknown arguments could match by a window only."""
        return self._deferred and self._test(call, self._with_windows_as(0, numbers), []) is False

    def _with_windows_as(self, number: int | None, numbers: Numbers) -> Numbers:
        pairs = zip(self._counters, numbers, strict=True)
        return [number if counter.scope == "window" else counted for counter, counted in pairs]

    def _count(self, call: sg.ToolCall, state: ToolGuardState) -> Numbers:
        """Count the attempt in every counter that it belongs to; return the counts."""
        session = state.session
        if not session:
            session = state.session = [0] * len(self._counters)
            state.windows = [[] for counter in self._counters if counter.scope == "window"]
        if self._single_counter is not None:
            scope, tool, seconds, most = self._single_counter
            is_counted = tool is None or tool == call.tool
            if scope == "window":
                return (_in_window(call.time, state.windows[0], seconds, most if is_counted else 0),)
            if not is_counted:
                return state.runs.get(_run_name(call)) or _ZERO_COUNT if self._has_runs else session
            only = _run_of(call, state, 1) if self._has_runs else session
            only[0] += 1
            return only
        run = _run_of(call, state, len(session)) if self._has_runs else session
        numbers: list[int | None] = []
        window = 0
        for position, (scope, tool, seconds, most) in enumerate(self._counters):
            is_counted = tool is None or tool == call.tool
            if scope == "window":
                numbers.append(_in_window(call.time, state.windows[window], seconds, most if is_counted else 0))
                window += 1
                continue
            counted = run if scope == "run" else session
            if is_counted:
                counted[position] += 1
            numbers.append(counted[position])
        return numbers

    def _hit(self, call: sg.ToolCall, numbers: Numbers, *, followup: bool = False) -> sg.Hit:
        evidence: dict[str, Any] = {"tool": call.tool}
        if numbers:
            evidence["counts"] = list(numbers)
        detail = f"an attempt at {call.tool}"
        if met := self._words(call, numbers).met(self.params.when):
            evidence["matched"] = met
            detail = f"{detail}: {'; '.join(met)}"
        return sg.Hit(detail, evidence, followup=followup, advice=self._advice)

    def shortfall(self, event: sg.Event, state: ToolGuardState) -> sg.Shortfall | None:
        """The predicates that did not hold."""
        if not isinstance(event, sg.ToolCall):
            return None
        lacking = self._words(event, self._numbers(event, state)).lacking(self.params.when)
        share = 1 / (1 + sum(1 - lack.nearness for lack in lacking))
        return sg.Shortfall("; ".join(lack.words for lack in lacking), share) if lacking else None

    def _words(self, call: sg.ToolCall, numbers: Numbers) -> PredicateWords:
        compiler = Compiler(self._counters, coerce=self.params.coerce)
        return PredicateWords(
            call,
            lambda name, written: compiler.test_of(name, written)(call, numbers, []),
            lambda name, written: numbers[self._counters.index(counter_of(name, written))],
        )

    def _numbers(self, call: sg.ToolCall, state: ToolGuardState) -> Numbers:
        """Return the counts as they stand, without counting."""
        if not self._counters or not state.session:
            return [None] * len(self._counters)
        run = state.runs.get(_run_name(call), state.session)
        windows = iter(state.windows)
        numbers: list[int | None] = []
        for position, (scope, _, seconds, _) in enumerate(self._counters):
            if scope == "window":
                numbers.append(_in_window(call.time, list(next(windows)), seconds, 0))
            else:
                numbers.append((run if scope == "run" else state.session)[position])
        return numbers


def _run_name(call: sg.ToolCall) -> str:
    return call.run_id if len(call.run_id) <= 64 else f"#{digest(call.run_id)}"


def _run_of(call: sg.ToolCall, state: ToolGuardState, counters: int) -> list[int]:
    """Return the counts of the call's run, and make that run the latest."""
    runs, run = state.runs, _run_name(call)
    counted = runs.get(run)
    if counted is None:
        counted = runs[run] = [0] * counters
        if len(runs) > _MOST_RUNS:
            evict_oldest(runs, _MOST_RUNS, state)
    elif len(runs) > 1:
        del runs[run]
        runs[run] = counted
    return counted


def _in_window(now: float | None, times: list[float], seconds: float, most: int) -> int | None:
    """Add the attempt, unless ``most`` is 0, and return how many lie in the window that ends now."""
    if now is None:
        return None
    if not times or times[-1] <= now - seconds:  # nothing is left in it
        if not most:
            return 0
        times.append(now)
        del times[:-most]
        return 1
    if most:
        insort(times, now)
        del times[:-most]
    # Half-open: an attempt exactly `seconds` old has left it.
    return bisect_right(times, now) - bisect_right(times, now - seconds)
