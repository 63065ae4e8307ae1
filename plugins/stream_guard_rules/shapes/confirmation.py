"""How ``must_confirm_before`` is written, and what it remembers."""

from __future__ import annotations

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg


class MustConfirmBeforeParams(sg.Params):
    """Parameters of ``must_confirm_before``."""

    tool: sg.ToolPattern | None = Field(
        default=None, description="the tools that need a yes: a name, a glob, or a list of them"
    )
    args_pattern: sg.Regex | None = Field(
        default=None, description="calls of any tool need a yes when this regular expression occurs in the arguments"
    )
    asks: sg.ToolPattern | None = Field(
        default=None, description="tools that ask the person themselves: an ok result of one is a yes"
    )
    covers: int = Field(default=1, ge=1, le=1000, description="calls that one yes is good for")

    @model_validator(mode="after")
    def _says_what(self) -> MustConfirmBeforeParams:
        if self.tool is None and self.args_pattern is None:
            raise PydanticCustomError("must_confirm_before", 'write "tool", "args_pattern" or both')
        return self


class AgreedState(sg.State):
    """Whether the agent spoke last, and how many calls the last yes is still good for."""

    spoke: bool = False
    heard: bool = False  # the user's words of this exchange came as an event; the request only repeats them
    left: int = 0
    used: list[int] = []
