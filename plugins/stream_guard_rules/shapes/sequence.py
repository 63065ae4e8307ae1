"""How ``must_call_before`` is written, and what it remembers."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field, field_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg


class MustCallBeforeParams(sg.Params):
    """Parameters of ``must_call_before``."""

    first: sg.ToolPattern = Field(description="the tool that must come first: a name, a glob, or a list of them")
    second: sg.ToolPattern = Field(
        validation_alias=AliasChoices("second", "then"), description="the tool that must wait for it (or `then`)"
    )
    if_first_absent: Literal["fire", "ignore"] = Field(
        default="fire",
        description="`fire`: `second` without `first` is a hit at once; `ignore`: only when `first` comes too late",
    )
    same_arg: str | None = Field(
        default=None,
        min_length=1,
        description="a dotted path into the arguments whose value must be the same in both calls, such as order_id",
    )
    first_must_succeed: bool = Field(
        default=False, description="`first` counts when its result is ok, not when it is tried"
    )
    within_seconds: sg.Duration | None = Field(
        default=None,
        description="how long `first` is good for, counted from its call (from its ok result, if that is asked)",
    )
    reset_on: sg.ToolPattern | None = Field(
        default=None,
        description="tools whose call makes `first` forgotten; `second` itself asks for a `first` each time",
    )

    @field_validator("same_arg")
    @classmethod
    def _is_a_path(cls, same_arg: str | None) -> str | None:
        if same_arg is not None and not all(same_arg.split(".")):
            raise PydanticCustomError("same_arg", '"{path}" has an empty step', {"path": same_arg})
        return same_arg


class First(sg.State):
    """One attempt at ``first``."""

    attempt: int
    standing: int
    time: float | None
    value: str


class Waiting(sg.State):
    """One call of ``second`` that came too early."""

    attempt: int
    index: int
    value: str


class OrderState(sg.State):
    """The attempts at ``first`` that may unlock ``second``, and the early calls of ``second``."""

    firsts: list[First] = []
    waiting: list[Waiting] = []
    unlocked: bool = False  # for good: a `first` ran, and nothing can take that back
