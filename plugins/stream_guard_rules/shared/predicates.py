"""Predicates over an attempt as a policy writes them, the counters that they need, and sentences about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from pydantic import AfterValidator, AliasChoices, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.evidence import as_evidence
from stream_guard_rules.shared.params import LARGEST_COUNT, check_relative

MOST_IN_WINDOW: Final = 4000
"""Attempts a window counts up to: it remembers the time of each."""


def _check_path(path: str) -> str:
    try:
        sg.Path(f"tool.args.{path}")
    except ValueError:
        message = "path {path} has an empty step; write names and list positions with dots: body.to, recipients.0"
        raise PydanticCustomError("path", message, {"path": path[:100]}) from None
    return check_relative(path)


def _pattern_of(value: Any) -> Any:
    return value["pattern"] if isinstance(value, dict) and set(value) == {"pattern"} else value


ArgPath: TypeAlias = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_check_path)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Pattern: TypeAlias = Annotated[
    sg.Regex,
    BeforeValidator(_pattern_of),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object", "required": ["pattern"]}]}),
]


class AtPath(sg.Params):
    """A place in the arguments."""

    path: ArgPath = Field(description="where in the arguments; numbers index lists: recipients.0")


class Compared(AtPath):
    """A number to compare with the one in the arguments."""

    value: int | float = Field(description="the number to compare with")
    coerce: bool = Field(default=False, description="also compare a text that reads as a number")


class Equal(AtPath):
    """A value to look for."""

    value: sg.Json = Field(description="any JSON value; 1 is 1.0, but true is not 1 and '1' is not 1")


class OneOf(AtPath):
    """Values to look for."""

    values: list[sg.Json] = Field(
        min_length=1, validation_alias=AliasChoices("values", "value"), description="the values, one of which it is"
    )


class Matching(AtPath):
    """A text to search."""

    pattern: sg.Regex = Field(description="regular expression (RE2), found anywhere in the text")


class Count(sg.Params):
    """How many attempts are too many."""

    tool: Name | None = Field(default=None, description="count only attempts at this tool; without it, at all of them")
    value: int = Field(ge=0, le=LARGEST_COUNT, description="attempts that are still fine; the current one counts")


class WindowCount(Count):
    """How many attempts are too many in a span of time."""

    value: int = Field(ge=0, le=MOST_IN_WINDOW, description="attempts that are still fine; the current one counts")
    window_seconds: float = Field(
        gt=0,
        allow_inf_nan=False,
        validation_alias=AliasChoices("windowSeconds", "window_seconds"),
        description="length of the window, which is half-open: an attempt exactly this old has left it",
    )


class When(sg.Params):
    """Predicates, all of which must hold; without any, it matches nothing."""

    model_config = ConfigDict(validate_by_name=False)  # it is written `not`, and never `not_`

    all_of: list[When] | None = Field(default=None, description="each of these holds")
    any_of: list[When] | None = Field(default=None, description="one of these holds")
    not_: When | None = Field(default=None, alias="not", description="this does not hold")
    tool_name_in: list[Name] | None = Field(default=None, min_length=1, description="the tool is one of these, exactly")
    tool_name_regex: Pattern | None = Field(default=None, description="the tool's name matches, anywhere in it")
    arg_eq: Equal | None = Field(default=None, description="the argument equals the value")
    arg_neq: Equal | None = Field(default=None, description="the argument is there and does not equal the value")
    arg_gt: Compared | None = Field(default=None, description="the argument is a number greater than the value")
    arg_gte: Compared | None = Field(default=None, description="the argument is a number, at least the value")
    arg_lt: Compared | None = Field(default=None, description="the argument is a number less than the value")
    arg_lte: Compared | None = Field(default=None, description="the argument is a number, at most the value")
    arg_in: OneOf | None = Field(default=None, description="the argument equals one of the values")
    arg_regex: Matching | None = Field(default=None, description="the argument is a text that matches")
    arg_present: AtPath | None = Field(default=None, description="the argument is there; null is")
    arg_missing: AtPath | None = Field(default=None, description="the argument is not there")
    call_count_in_run_gt: Count | None = Field(default=None, description="more attempts in this run than the value")
    call_count_in_session_gt: Count | None = Field(
        default=None, description="more attempts in the session, runs of sub-agents included, than the value"
    )
    call_count_in_window_gt: WindowCount | None = Field(
        default=None, description="more attempts of the session in the last seconds than the value; no inline gate"
    )


def predicates_of(when: When) -> Iterator[tuple[str, Any]]:
    """Yield the predicates and groups that a policy wrote, by name."""
    for name in When.model_fields:
        value = getattr(when, name)
        if value is not None:
            yield name, value


GROUPS: Final = ("all_of", "any_of", "not_")
COUNTED: Final = {
    "call_count_in_run_gt": "run",
    "call_count_in_session_gt": "session",
    "call_count_in_window_gt": "window",
}


class Counter(NamedTuple):
    """What is counted: attempts at one tool or at all, in a run, a session or a window of seconds."""

    scope: str
    tool: str | None
    seconds: float = 0.0
    most: int = 0  # a window remembers no more than it takes to know that the threshold is passed


def counter_of(name: str, written: Count) -> Counter:
    """Return what a predicate counts."""
    if isinstance(written, WindowCount):
        return Counter(COUNTED[name], written.tool, written.window_seconds, written.value + 1)
    return Counter(COUNTED[name], written.tool)


def counters_of(when: When) -> list[Counter]:
    """Return the counters of all predicates, groups included: each once, in the order in which a state stores them."""
    return list(dict.fromkeys(counter_of(name, value) for name, value in _single_ones(when) if name in COUNTED))


def reads_args(when: When) -> bool:
    """Whether a predicate is about an argument, groups included."""
    return any(isinstance(value, AtPath) for _, value in _single_ones(when))


def _single_ones(when: When) -> Iterator[tuple[str, Any]]:
    """Yield the predicates that a policy wrote, by name, those in groups instead of the groups."""
    for name, value in predicates_of(when):
        if name in GROUPS:
            for inner in [value] if name == "not_" else value:
                yield from _single_ones(inner)
        else:
            yield name, value


# Sentences about predicates: which held, which did not and by how much, and what would pass.

Holds = Callable[[str, Any], bool | None]
"""Whether one predicate of a policy holds for the attempt; None where that is unknown."""

NumberOf = Callable[[str, Count], int | None]
"""How often a predicate's counter has counted."""

_SHOWN: Final = 60
_MOST: Final = 5
_COMPARED: Final = {"arg_gt": "over", "arg_gte": "at least", "arg_lt": "under", "arg_lte": "at most"}
_OPPOSITE: Final = {"arg_gt": "at most", "arg_gte": "under", "arg_lt": "at least", "arg_lte": "over"}


class Lack(NamedTuple):
    """What was lacking, and how near it came, from 0 to 1."""

    words: str
    nearness: float = 0.0


class PredicateWords:
    """Words for the predicates of one rule at one attempt."""

    def __init__(self, call: sg.ToolCall, holds: Holds, number_of: NumberOf) -> None:
        self._call = call
        self._holds = holds
        self._number_of = number_of

    def met(self, when: When) -> list[str]:
        """Return what holds, without the tool's name."""
        said: list[str] = []
        for name, value in predicates_of(when):
            if name == "not_":
                said += [lack.words for lack in self.lacking(value)[:1]]
            elif name in {"all_of", "any_of"}:
                said += [words for inner in value if self.is_met(inner) for words in self.met(inner)]
            elif self._holds(name, value) and not name.startswith("tool_name"):
                said.append(self._met(name, value))
        return said

    def lacking(self, when: When) -> list[Lack]:
        """Return the fewest things that keep the predicates from holding."""
        said: list[Lack] = []
        for name, value in predicates_of(when):
            if name == "not_":
                said += [Lack(words) for words in self.met(value)] if self.is_met(value) else []
            elif name == "all_of":
                said += [lack for inner in value for lack in self.lacking(inner)]
            elif name == "any_of":
                said += self._fewest(value)
            elif not self._holds(name, value):
                said.append(Lack(self._lacking(name, value), self._nearness(name, value)))
        return said

    def _fewest(self, groups: list[When]) -> list[Lack]:
        ways = [self.lacking(inner) for inner in groups]
        return min(ways, key=len) if ways else []

    def is_met(self, when: When) -> bool:
        """Whether everything holds; without predicates nothing does."""
        answers = [self._group_is_met(name, value) for name, value in predicates_of(when)]
        return bool(answers) and all(answers)

    def _group_is_met(self, name: str, value: Any) -> bool:
        if name == "not_":
            return not self.is_met(value)
        if name == "all_of":
            return all(map(self.is_met, value))
        return any(map(self.is_met, value)) if name == "any_of" else bool(self._holds(name, value))

    def _met(self, name: str, value: Any) -> str:
        if name in COUNTED:
            return f"attempt {self._number(name, value)} {_counted(value)}, and {value.value} are allowed"
        found = f"{value.path} is {self._value(value.path)}"
        if name in _COMPARED:
            return f"{found}, {_COMPARED[name]} {value.value:,.10g}"
        if name == "arg_regex":
            return f'{found}, with "{_cut(self._piece(value))}" in it'
        if name == "arg_neq":
            return f"{found}, not {_cut(as_evidence(value.value))}"
        return f"{value.path} is missing" if name == "arg_missing" else found

    def _lacking(self, name: str, value: Any) -> str:  # noqa: PLR0911  # one for each sort of predicate
        if name == "tool_name_in":
            return f"the tool is {_cut(self._call.tool)}, not {_listed(value)}"
        if name == "tool_name_regex":
            return f"the tool {_cut(self._call.tool)} does not match {_cut(value.pattern)}"
        if name in COUNTED:
            return f"attempt {self._number(name, value)} of {value.value + 1} {_counted(value)}"
        if name == "arg_missing":
            return f"{value.path} is {self._value(value.path)}, not missing"
        found = f"{value.path} is {self._value(value.path)}"
        if name in _COMPARED:
            return f"{found}, not {_COMPARED[name]} {value.value:,.10g}{self._gap(value)}"
        if name == "arg_regex":
            return f"{found}, which does not match {_cut(value.pattern.pattern)}"
        if name == "arg_in":
            return f"{found}, not {_listed([as_evidence(item) for item in value.values])}"
        return found if name in {"arg_neq", "arg_present"} else f"{found}, not {_cut(as_evidence(value.value))}"

    def _nearness(self, name: str, value: Any) -> float:
        """Return how near a number came to what is asked for: from 0 to just under 1."""
        if name in COUNTED:
            most: int = value.value
            return (self._number_of(name, value) or 0) / (most + 2)
        if name not in _COMPARED:
            return 0.0
        found = sg.Path(f"tool.args.{value.path}").find(self._call)
        if isinstance(found, bool) or not isinstance(found, int | float):
            return 0.0
        asked: float = value.value
        gap: float = abs(asked - found)
        return 1 - (gap + 1) / (gap + abs(asked) + 2)

    def _number(self, name: str, value: Count) -> str:
        number = self._number_of(name, value)
        return "?" if number is None else str(number)

    def _value(self, path: str) -> str:
        found = sg.Path(f"tool.args.{path}").find(self._call)
        return "missing" if found is sg.MISSING else _cut(as_evidence(found))

    def _piece(self, value: Any) -> str:
        """Return what a pattern found in the argument; the pattern itself says nothing to a reader."""
        text = sg.Path(f"tool.args.{value.path}").find(self._call)
        return (value.pattern.search(text) or "") if isinstance(text, str) else ""

    def _gap(self, value: Any) -> str:
        found = sg.Path(f"tool.args.{value.path}").find(self._call)
        if isinstance(found, bool) or not isinstance(found, int | float):
            return ""
        gap = abs(value.value - found)
        return f" ({gap:,.10g} {'short' if found < value.value else 'over'})" if gap else ""


def what_would_pass(when: When) -> str:
    """Return what another attempt would need to pass, where that is a matter of one of its arguments or of time."""
    ways = [way for name, value in predicates_of(when) if (way := _passing_change(name, value))]
    return " or ".join(dict.fromkeys(ways))


def _passing_change(name: str, value: Any) -> str:  # noqa: PLR0911  # one for each sort of predicate
    if name in _OPPOSITE:
        return f"{value.path} {_OPPOSITE[name]} {value.value:,.10g}"
    if name == "arg_neq":
        return f"{value.path} {_cut(as_evidence(value.value))}"
    if name in {"arg_eq", "arg_in"}:
        return f"another {value.path}"
    if name == "arg_regex":
        return f"a {value.path} that does not match {_cut(value.pattern.pattern)}"
    if name == "arg_present":
        return f"no {value.path}"
    if name == "arg_missing":
        return f"a {value.path}"
    if isinstance(value, WindowCount):
        return f"fewer attempts in {value.window_seconds:g} s: wait"
    return ""


def _counted(value: Count) -> str:
    at = f"at {_cut(value.tool)} " if value.tool is not None else ""
    return f"{at}in {value.window_seconds:g} s" if isinstance(value, WindowCount) else f"{at}so far"


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(_cut, names[:_MOST]))
    return shown if len(names) <= _MOST else f"{shown} or {len(names) - _MOST} more"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
