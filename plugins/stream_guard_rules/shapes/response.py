"""How rules about what a response says are written, and what they remember."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shapes.texts import Text


class RequiredStopReasonParams(sg.Params):
    """Parameters of ``required_stop_reason``."""

    allowed: list[str] = Field(min_length=1, description="the stop reasons a response may end with, as a list")


class IncludeParams(sg.Params):
    """Parameters of ``must_include_text`` and ``must_include_text_each``."""

    text: Text = Field(description="the text to be found, letter for letter")


class IncludeState(sg.State):
    """Whether there was a response, and whether one had the text."""

    responded: bool = False
    found: bool = False


class ForbiddenTextParams(sg.Params):
    """Parameters of ``forbidden_text``."""

    text: Text | None = Field(default=None, description="the text that must not occur, letter for letter")
    pattern: sg.Regex | None = Field(default=None, description="or a regular expression (RE2) for it")
    where: Literal["response", "tool_args", "tool_result", "user"] = Field(
        default="response", description="where to look: in payloads, every string and every key is read"
    )

    @model_validator(mode="after")
    def _says_what(self) -> ForbiddenTextParams:
        if (self.text is None) == (self.pattern is None):
            raise PydanticCustomError("forbidden_text", 'write either "text" or "pattern", and only one of them')
        return self
