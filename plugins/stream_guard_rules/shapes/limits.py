"""How rules about how often and how long are written, and what they remember."""

from __future__ import annotations

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shapes.bounds import MOST

REMEMBERED = 64  # calls without a result of which one turn may have that many


class MaxCallsParams(sg.Params):
    """Parameters of ``max_calls``."""

    tool: sg.ToolPattern = Field(
        default=sg.ToolPattern("*"), description="the tools that are counted together: a name, a glob, or a list"
    )
    n: int = Field(ge=0, le=MOST, description="calls that are still fine")


class CallCount(sg.State):
    """How many attempts there were."""

    calls: int = 0


class MaxFailedCallsParams(sg.Params):
    """Parameters of ``max_failed_calls``."""

    tool: sg.ToolPattern = Field(description="the tools whose failures are counted: a name, a glob, or a list")
    n: int = Field(ge=1, le=MOST, description="failures after which it must not be tried again")


class FailureCount(sg.State):
    """How many attempts failed."""

    failures: int = 0


class MaxParallelCallsParams(sg.Params):
    """Parameters of ``max_parallel_calls``."""

    n: int = Field(default=1, ge=1, le=REMEMBERED, description="calls that may be open at the same time")


class OpenCalls(sg.State):
    """The attempts of the current turn that have no result yet."""

    turn: int = -1
    open: list[int] = []


class MaxTextLengthParams(sg.Params):
    """Parameters of ``max_text_length``."""

    words: int | None = Field(default=None, ge=0, description="words that are still fine")
    characters: int | None = Field(default=None, ge=0, description="characters that are still fine")

    @model_validator(mode="after")
    def _says_what(self) -> MaxTextLengthParams:
        if self.words is None and self.characters is None:
            raise PydanticCustomError("max_text_length", 'write "words", "characters" or both')
        return self
