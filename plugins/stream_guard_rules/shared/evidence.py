"""Texts and values as evidence shows them, cut short."""

from __future__ import annotations

from typing import Final

import msgspec

import stream_guard as sg

_EVIDENCE_CHARS: Final = 200


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
