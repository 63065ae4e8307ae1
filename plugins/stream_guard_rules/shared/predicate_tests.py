"""Predicates compiled to tests with three answers: true, false and unknown (Kleene's logic)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from operator import ge, gt, le, lt
from typing import Any, Final, TypeAlias

import stream_guard as sg
from stream_guard_rules.shared.predicates import (
    COUNTED,
    GROUPS,
    Compared,
    Count,
    Counter,
    Matching,
    When,
    counter_of,
    predicates_of,
)

Numbers: TypeAlias = Sequence[int | None]
"""The number of each of a rule's counters; None where it is unknown."""

Notes: TypeAlias = list[str]
"""Why a test could not tell, in the order it was found."""

Test: TypeAlias = Callable[[sg.ToolCall, Numbers, Notes], bool | None]
"""Whether an attempt matches; None where that is unknown (Kleene's third value)."""


class Compiler:
    """Turns the predicates of a policy into one test; the test reads counters by their positions."""

    def __init__(self, counters: Sequence[Counter], *, coerce: bool) -> None:
        self._counters = counters
        self._coerce = coerce

    def compile(self, when: When) -> Test:
        """Return the test; a group without predicates matches nothing, not even under ``not``."""
        return _all([self.test_of(name, value) for name, value in predicates_of(when)])

    def test_of(self, name: str, value: Any) -> Test:
        """Return the test of one predicate or group."""
        if name in GROUPS:
            return self._group(name, value)
        if name == "tool_name_in":
            names = frozenset(value)
            return lambda call, _numbers, _notes: call.tool in names
        if name == "tool_name_regex":
            return _name_matches(value)
        if name in _COMPARISONS:
            return _compare(_COMPARISONS[name], value, coerce=value.coerce or self._coerce)
        if name in COUNTED:
            return self._count(name, value)
        return _matches(value) if name == "arg_regex" else _ask(value.path, _answer(name, value))

    def _group(self, name: str, value: Any) -> Test:
        if name == "not_":
            return _not(self.compile(value))
        tests = [self.compile(inner) for inner in value]
        return _all(tests) if name == "all_of" else _any(tests)

    def _count(self, name: str, written: Count) -> Test:
        position, threshold = self._counters.index(counter_of(name, written)), written.value

        def exceeds(_call: sg.ToolCall, numbers: Numbers, _notes: Notes) -> bool | None:
            number = numbers[position]
            return None if number is None else number > threshold

        return exceeds


def _all(tests: list[Test]) -> Test:
    if not tests:
        return _nothing
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        return _both(*tests)

    def hold(call: sg.ToolCall, numbers: Numbers, notes: Notes) -> bool | None:
        combined: bool | None = True
        for test in tests:
            answer = test(call, numbers, notes)
            if answer is False:
                return False
            if answer is None:
                combined = None
        return combined

    return hold


def _both(first: Test, second: Test) -> Test:
    """Return what ``_all`` is for two tests, most often a tool's name and one more, without a loop."""

    def hold(call: sg.ToolCall, numbers: Numbers, notes: Notes) -> bool | None:
        one = first(call, numbers, notes)
        if one is False:
            return False
        other = second(call, numbers, notes)
        return None if one is None and other is True else other

    return hold


def _any(tests: list[Test]) -> Test:
    if not tests:
        return _nothing

    def holds(call: sg.ToolCall, numbers: Numbers, notes: Notes) -> bool | None:
        combined: bool | None = False
        for test in tests:
            answer = test(call, numbers, notes)
            if answer:
                return True
            if answer is None:
                combined = None
        return combined

    return holds


def _not(test: Test) -> Test:
    def fails(call: sg.ToolCall, numbers: Numbers, notes: Notes) -> bool | None:
        answer = test(call, numbers, notes)
        return None if answer is None else not answer

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
    """Return a function that finds an argument; ``_UNKNOWN`` where there are no arguments to look into.

    Arguments that were not captured, are left out, or are a text that is not JSON, are unknown.
    """
    find, missing = sg.Path(f"tool.args.{path}").find, sg.MISSING
    first, _, others = path.partition(".")

    def found(call: sg.ToolCall) -> Any:
        args = call.args
        if type(args) is dict and call.captured:
            value = args.get(first, missing)  # most paths have one step, or end at a missing one
            return value if not others or value is missing else find(call)
        return _UNKNOWN if not call.captured or args is None or type(args) is str else find(call)

    return found


def _ask(path: str, answer: Callable[[Any], bool]) -> Test:
    """Return the test of the value at a path; ``answer`` gets ``MISSING`` too."""
    find = _finder(path)

    def holds(call: sg.ToolCall, _numbers: Numbers, notes: Notes) -> bool | None:
        value = find(call)
        if value is _UNKNOWN:
            notes.append("unevaluable")
            return None
        return answer(value)

    return holds


def _answer(name: str, written: Any) -> Callable[[Any], bool]:
    if name == "arg_eq":
        return lambda value: value is not sg.MISSING and sg.json_equal(value, written.value)
    if name == "arg_neq":
        return lambda value: value is not sg.MISSING and not sg.json_equal(value, written.value)
    if name == "arg_in":
        return lambda value: any(sg.json_equal(value, listed) for listed in written.values)
    if name == "arg_present":
        return lambda value: value is not sg.MISSING
    return lambda value: value is sg.MISSING


def _matches(written: Matching) -> Test:
    occurs_in = written.pattern.occurs_in
    return _ask(written.path, lambda value: type(value) is str and occurs_in(value))


def _compare(holds: Callable[[Any, Any], bool], written: Compared, *, coerce: bool) -> Test:
    find, wanted = _finder(written.path), written.value

    def compare(call: sg.ToolCall, _numbers: Numbers, notes: Notes) -> bool | None:
        value = find(call)
        kind = type(value)
        if kind is int or (kind is float and not isnan(value)):
            return holds(value, wanted)
        if value is sg.MISSING:
            return False
        number = _number(value) if coerce else None
        if number is not None:
            return holds(number, wanted)
        # NaN, and a text that is to be read as a number and is none, are unknown.
        unknown = value is _UNKNOWN or type(value) is float or (coerce and type(value) is str)
        notes.append("unevaluable" if unknown else "type_mismatch")
        return None if unknown else False

    return compare


def _number(value: sg.Json) -> int | float | None:
    """Return the number that Python reads in a text, an int where possible; None when it is none."""
    if type(value) is not str:
        return None
    for read in (int, float):
        try:
            number = read(value)
        except (ValueError, OverflowError):  # a text of thousands of digits is no int to Python, but a float
            continue
        return None if isinstance(number, float) and isnan(number) else number
    return None


_UNKNOWN: Final = object()
_COMPARISONS: Final = {"arg_gt": gt, "arg_gte": ge, "arg_lt": lt, "arg_lte": le}


# Tools at which an attempt can meet predicates, whatever its arguments and its counts.

_PATTERN_SIGNS: Final = frozenset("*?|()@")


def reachable_tools(when: When, test: Test, counted: Sequence[str | None]) -> sg.ToolFilter | None:
    """Return the tools at which an attempt can match or is counted; None where that can be any tool."""
    if None in counted or not _tests_names(when):
        return None
    names = _required_names(when)
    if names is not None:
        wanted = sorted(names.union(tool for tool in counted if tool is not None))
        if all(map(is_plain_name, wanted)):
            return sg.ToolPattern(wanted)
    return _ReachableTools(test, counted)


def is_plain_name(tool: str) -> bool:
    """Whether a tool's name means itself as a pattern too, and is no glob or class there."""
    return not _PATTERN_SIGNS & set(tool)


class _ReachableTools:
    """Matches the tools at which an attempt could match, whatever its arguments and the counts."""

    exact = None

    def __init__(self, test: Test, counted: Sequence[str | None]) -> None:
        self._test = test
        self._counted = counted

    def matches(self, tool: str) -> bool:
        """Whether the name alone leaves a match possible, or the attempt has to be counted."""
        nothing_known: Numbers = [None] * len(self._counted)
        bare = sg.ToolCall(session_id="", tool=tool, captured=False)
        return tool in self._counted or self._test(bare, nothing_known, []) is not False


def _tests_names(when: When) -> bool:
    """Whether some predicate is about the tool's name."""
    for name, value in predicates_of(when):
        inner = [value] if name == "not_" else value if name in {"all_of", "any_of"} else []
        if name.startswith("tool_name") or any(map(_tests_names, inner)):
            return True
    return False


def _required_names(when: When) -> frozenset[str] | None:
    """Return the tools of which a match needs one, or None when it could be any."""
    found: frozenset[str] | None = None
    for name, value in predicates_of(when):
        parts = [_required_names(inner) for inner in value] if name == "all_of" else []
        if name == "tool_name_in":
            parts = [frozenset(value)]
        for part in parts:
            if part is not None:
                found = part if found is None else found & part
    return found
