"""Texts and values as evidence shows them, cut short."""

from __future__ import annotations

from typing import Final

import msgspec

import stream_guard as sg

_EVIDENCE_CHARS: Final = 200
_NAMED: Final = 3  # tools that are named one by one


def cut(text: str) -> str:
    """Return the text, or its beginning when it is too long for evidence."""
    return text if len(text) <= _EVIDENCE_CHARS else text[: _EVIDENCE_CHARS - 3] + "..."


def as_evidence(value: sg.Json) -> str:
    """Return a value as evidence shows it: a text as it is, anything else as JSON, long ones cut."""
    if isinstance(value, str):
        return cut(value)
    try:
        return cut(msgspec.json.encode(value).decode())
    except (ValueError, RecursionError):  # half of a surrogate pair, or too deep
        return f"a {type(value).__name__} that cannot be written"


def spoken(tools: sg.ToolPattern, otherwise: str) -> str:
    """Return tools that were not called as a headline names them: by name or by class; ``otherwise`` for a pattern."""
    names = tools.text.split("|")
    if tools.text.startswith("@") and len(names) == 1:
        return f"a tool of {tools.text}"
    if tools.exact is None or "@" in tools.text:
        return otherwise
    shown = names[:_NAMED] + ([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else [])
    return " or ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part)
