"""Predicates over an attempt as a policy writes them, and the counters that they need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from pydantic import AfterValidator, AliasChoices, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.argument_paths import check_relative
from stream_guard_rules.shared.bounds import LARGEST_COUNT

MOST_IN_WINDOW: Final = 4000
"""Attempts a window counts up to: it remembers the time of each."""


def _check_path(path: str) -> str:
    try:
        sg.Path(f"tool.args.{path}")
    except ValueError:
        message = "path {path} has an empty step; write names and list positions with dots: body.to, recipients.0"
        raise PydanticCustomError("path", message, {"path": path[:100]}) from None
    check_relative(path)
    return path


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
