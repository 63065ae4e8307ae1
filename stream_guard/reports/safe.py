"""Text of agents in reports: without secrets, short, and unable to act on whoever shows it."""

from __future__ import annotations

from typing import Final

from stream_guard.redaction import redact_text

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
