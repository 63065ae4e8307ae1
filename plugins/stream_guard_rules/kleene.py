"""Predicates as tests that say yes, no or unknown, as Kleene does, and what has to be counted for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from operator import ge, gt, le, lt
from typing import Any, Final, NamedTuple, TypeAlias

import stream_guard as sg
from stream_guard_rules.predicates import Compared, Count, Matching, When, WindowCount, given

Numbers: TypeAlias = Sequence[int | None]
"""How often each of a rule's counters has counted; None: not to be known here."""

Notes: TypeAlias = list[str]
"""Why a test could not tell, in the order it was found."""

Test: TypeAlias = Callable[[sg.ToolCall, Numbers, Notes], bool | None]
"""Whether an attempt is meant; None where that is not to be known (Kleene's third value)."""


class Counter(NamedTuple):
    """What is counted: attempts at one tool or at all, in a run, a session or a window of seconds."""

    scope: str
    tool: str | None
    seconds: float = 0.0
    most: int = 0  # a window remembers no more than it takes to know that the threshold is passed


class Compiler:
    """Turns what is written into one test, and collects what has to be counted for it."""

    def __init__(self, *, coerce: bool) -> None:
        self._coerce = coerce
        self.counters: list[Counter] = []

    def compile(self, when: When) -> Test:
        """Return the test; a group without predicates matches nothing, not even under ``not``."""
        return _all([self._one(name, value) for name, value in given(when)])

    def _one(self, name: str, value: Any) -> Test:
        if name in _GROUPS:
            return self._group(name, value)
        if name == "tool_name_in":
            names = frozenset(value)
            return lambda call, _numbers, _notes: call.tool in names
        if name == "tool_name_regex":
            return _name_matches(value)
        if name in _COMPARISONS:
            return _compare(_COMPARISONS[name], value, coerce=value.coerce or self._coerce)
        if name in _COUNTED:
            return self._count(_COUNTED[name], value)
        return _matches(value) if name == "arg_regex" else _ask(value.path, _ANSWERS[name](value))

    def _group(self, name: str, value: Any) -> Test:
        if name == "not_":
            return _not(self.compile(value))
        tests = [self.compile(inner) for inner in value]
        return _all(tests) if name == "all_of" else _any(tests)

    def _count(self, scope: str, written: Count) -> Test:
        counter = Counter(scope, written.tool)
        if isinstance(written, WindowCount):
            counter = Counter(scope, written.tool, written.window_seconds, written.value + 1)
        if counter not in self.counters:
            self.counters.append(counter)
        position, threshold = self.counters.index(counter), written.value

        def exceeds(_call: sg.ToolCall, numbers: Numbers, _notes: Notes) -> bool | None:
            number = numbers[position]
            return None if number is None else number > threshold

        return exceeds


def _all(tests: list[Test]) -> Test:
    if not tests:
        return _nothing
    if len(tests) == 1:
        return tests[0]

    def hold(call: sg.ToolCall, numbers: Numbers, notes: Notes) -> bool | None:
        answer: bool | None = True
        for test in tests:
            said = test(call, numbers, notes)
            if said is False:
                return False
            if said is None:
                answer = None
        return answer

    return hold


def _any(tests: list[Test]) -> Test:
    if not tests:
        return _nothing

    def holds(call: sg.ToolCall, numbers: Numbers, notes: Notes) -> bool | None:
        answer: bool | None = False
        for test in tests:
            said = test(call, numbers, notes)
            if said:
                return True
            if said is None:
                answer = None
        return answer

    return holds


def _not(test: Test) -> Test:
    def fails(call: sg.ToolCall, numbers: Numbers, notes: Notes) -> bool | None:
        said = test(call, numbers, notes)
        return None if said is None else not said

    return fails


def _nothing(_call: sg.ToolCall, _numbers: Numbers, _notes: Notes) -> None:
    # Unknown, not false: under `not` a false would match everything, which is what an empty group must never do.
    return None


def _name_matches(regex: sg.Regex) -> Test:
    known: dict[str, bool] = {}

    def matches(call: sg.ToolCall, _numbers: Numbers, _notes: Notes) -> bool:
        answer = known.get(call.tool)
        if answer is None:
            # Tool names are the agent's text: invented ones must not grow this without bound.
            if len(known) >= 1024:
                known.clear()
            answer = known[call.tool] = regex.occurs_in(call.tool)
        return answer

    return matches


def _finder(path: str) -> Callable[[sg.ToolCall], Any]:
    """Return the way to an argument; most paths are one step, and every rule goes its way at every attempt."""
    find = sg.Path(f"tool.args.{path}").find
    if "." in path:
        return find
    missing = sg.MISSING

    def first(call: sg.ToolCall) -> Any:
        args = call.args
        return args.get(path, missing) if type(args) is dict else find(call)

    return first


def _ask(path: str, answer: Callable[[Any], bool]) -> Test:
    """Return the test of what stands at a path; ``answer`` is asked about ``MISSING`` too."""
    find = _finder(path)

    def holds(call: sg.ToolCall, _numbers: Numbers, notes: Notes) -> bool | None:
        if not call.captured:
            notes.append("unevaluable")
            return None
        return answer(find(call))

    return holds


def _matches(written: Matching) -> Test:
    find, occurs_in = _finder(written.path), written.pattern.occurs_in

    def matches(call: sg.ToolCall, _numbers: Numbers, notes: Notes) -> bool | None:
        if not call.captured:
            notes.append("unevaluable")
            return None
        value = find(call)
        return type(value) is str and occurs_in(value)

    return matches


def _compare(holds: Callable[[Any, Any], bool], written: Compared, *, coerce: bool) -> Test:
    find, wanted = _finder(written.path), written.value

    def compare(call: sg.ToolCall, _numbers: Numbers, notes: Notes) -> bool | None:
        if not call.captured:
            notes.append("unevaluable")
            return None
        value = find(call)
        if type(value) is int or type(value) is float:
            return holds(value, wanted)
        if value is sg.MISSING:
            return False
        number = _number(value) if coerce else None
        if number is None:
            notes.append("type_mismatch")
            return False
        return holds(number, wanted)

    return compare


def _number(value: sg.Json) -> int | float | None:
    """Return the number a text stands for, exactly where it is a whole one; None where it is none."""
    if not isinstance(value, str) or len(value) > 400:  # Python refuses to read very long integers
        return None
    for read in (int, float):
        try:
            number = read(value)
        except ValueError:
            continue
        return number if isfinite(number) else None
    return None


_GROUPS: Final = ("all_of", "any_of", "not_")
_COMPARISONS: Final = {"arg_gt": gt, "arg_gte": ge, "arg_lt": lt, "arg_lte": le}
_COUNTED: Final = {
    "call_count_in_run_gt": "run",
    "call_count_in_session_gt": "session",
    "call_count_in_window_gt": "window",
}
_ANSWERS: Final[dict[str, Callable[[Any], Callable[[Any], bool]]]] = {
    "arg_eq": lambda written: lambda value: value is not sg.MISSING and sg.json_equal(value, written.value),
    "arg_neq": lambda written: lambda value: value is not sg.MISSING and not sg.json_equal(value, written.value),
    "arg_in": lambda written: lambda value: any(sg.json_equal(value, one) for one in written.values),
    "arg_present": lambda _written: lambda value: value is not sg.MISSING,
    "arg_missing": lambda _written: lambda value: value is sg.MISSING,
}
