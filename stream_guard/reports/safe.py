"""Text of agents in reports: without secrets, short, and unable to act on whoever shows it."""

from __future__ import annotations

from typing import Final

from stream_guard.errors import Place
from stream_guard.redaction import redact_text
from stream_guard.reports import Level

_LONGEST: Final = 160


def visible(text: str) -> str:
    """Return the text on one line, with everything that is not seen, such as marks that turn it round, spelled out."""
    return "".join(char if char.isprintable() else " " if char in "\n\t" else f"\\u{ord(char):04x}" for char in text)


def excerpt(text: str) -> str:
    """Return as much of a text as a report shows."""
    shown = visible(redact_text(text))
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def code(text: str) -> str:
    """Return the text as a Markdown code span: no link, no mention, no HTML in it is one."""
    shown = visible(text).replace("`", "'").replace("|", "¦")
    return f"`{shown}`" if shown.strip() else ""


def number(value: float) -> str:
    """Return a number with as many digits as a reader compares."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


# GitHub's workflow commands: one line that is shown beside the code.


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
