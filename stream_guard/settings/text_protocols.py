"""Patterns that find tool calls in the text of agents that have no other way to call tools."""

from __future__ import annotations

from typing import Annotated, Final

import re2
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from stream_guard.judge.patterns import Regex

# "Action:" and behind it an object with name and arguments, or a name and, on the next line, "Action Input:".
_CALL: Final = r"(?m)^\s*Action:\s*(?:(?P<json>\{)|(?P<name>[^\s{}\[\]:]+)[ \t]*$)"
_ARGUMENTS: Final = r"(?s)^\s*Action Input:[ \t]*(?P<args>.*)$"
_RESULT: Final = r"(?s)^\s*(?:API output|Observation|Tool result):[ \t]*(?P<output>.*)$"
_ERROR: Final = r"^(?i:error)\b"


def _with_group(*groups: str) -> AfterValidator:
    """Return a check that a pattern is a linear-time regular expression with one of these groups."""

    def check(pattern: str) -> str:
        Regex(pattern)  # raises ValueError, in words
        found = re2.compile(pattern).groupindex
        if groups and not any(group in found for group in groups):
            wanted = " or ".join(f"(?P<{group}>...)" for group in groups)
            raise ValueError(f"the pattern needs a group {wanted}, which says what is taken from the text")
        return pattern

    return AfterValidator(check)


class TextProtocol(BaseModel):
    """How the format ``text-protocol`` finds calls and results in texts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    call: Annotated[str, _with_group("name", "json")] = Field(
        default=_CALL,
        description="where a call begins in what the model said: a group `name`, or `json` at the object of the call",
    )
    arguments: Annotated[str, _with_group("args")] = Field(
        default=_ARGUMENTS, description="the arguments in what follows a call's name: a group `args`"
    )
    result: Annotated[str, _with_group("output")] = Field(
        default=_RESULT, description="a message of the user's that is a result: a group `output`"
    )
    error: Annotated[str, _with_group()] = Field(
        default=_ERROR, description="what the output of a call that failed matches"
    )
    answer: str = Field(
        default="respond", description="a tool that is none: its argument `content` is what the agent said"
    )
