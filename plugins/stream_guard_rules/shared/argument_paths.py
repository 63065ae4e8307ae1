"""Dotted paths into the arguments of a call, as parameters of kinds write them."""

from __future__ import annotations

from pydantic_core import PydanticCustomError


def check_dotted_path(path: str) -> str:
    """Return the path; refuse one with an empty step."""
    if not all(path.split(".")):
        raise PydanticCustomError("path", '"{path}" has an empty step', {"path": path})
    return path


def check_relative(path: str) -> None:
    """Refuse a path that begins at the event: it leads nowhere inside the arguments."""
    inside = path.removeprefix("tool.args.")
    if inside != path:
        message = "path {path} is counted from the arguments; write {inside}"
        raise PydanticCustomError("path", message, {"path": path[:100], "inside": inside[:100]})
