"""What parameters of several kinds are: their bounds, and dotted paths into the arguments of a call."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

LARGEST_COUNT: Final = 2**53
"""Counts and sums stop here, so that a source of absurd numbers cannot break a stored state."""

# An empty text occurs in everything: a rule about it would always fire or never.
SoughtText: TypeAlias = Annotated[str, Field(min_length=1)]
"""A text to look for."""


def check_dotted_path(path: str) -> str:
    """Return the path; refuse one with an empty step."""
    if not all(path.split(".")):
        raise PydanticCustomError("path", '"{path}" has an empty step', {"path": path})
    return path


def check_relative(path: str) -> str:
    """Return the path; refuse one that begins at the event: it leads nowhere inside the arguments."""
    inside = path.removeprefix("tool.args.")
    if inside != path:
        message = "path {path} is counted from the arguments; write {inside}"
        raise PydanticCustomError("path", message, {"path": path[:100], "inside": inside[:100]})
    return path


DottedPath: TypeAlias = Annotated[str, AfterValidator(check_dotted_path)]
ArgumentPath: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(check_dotted_path)]
"""The argument of a call, or a value inside of it."""
