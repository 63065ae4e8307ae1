"""GitHub's workflow commands: one line that is shown beside the code."""

from __future__ import annotations

from stream_guard.errors import Place
from stream_guard.reports.safe import visible
from stream_guard.reports.values import Level


def annotation(level: Level, title: str, text: str, place: Place | None, *, column: bool = False) -> str:
    """Return one line; ``column`` names the column too, and no line where the place has none."""
    command = "notice" if level in ("none", "note") else level
    return f"::{command} {_where(place, column=column)}title={_escape(title, ':', ',')}::{_escape(text)}"


def _where(place: Place | None, *, column: bool) -> str:
    if place is None or not place.file:
        return ""
    file = f"file={_escape(place.file, ':', ',')},"
    if not column:
        return f"{file}line={max(1, place.line)},"
    return f"{file}line={place.line},col={place.column}," if place.line else file


def _escape(text: str, *more: str) -> str:
    """Commands have their own escapes; what is invisible is spelled out, so that no line becomes a command."""
    text = visible(text)
    for char in ("%", "\r", "\n", *more):
        text = text.replace(char, f"%{ord(char):02X}")
    return text
