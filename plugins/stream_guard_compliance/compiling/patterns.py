"""Texts as patterns of RE2: literal, at the beginning or the end, more of something than is fine."""

from __future__ import annotations

import zlib
from typing import Final

import re2

GREETING: Final = r"^\W*\pL+(?:\W+\pL+)?\W*$"  # a word or two, which no rule about answers means

# Some words that end in a stop and no question: what a person takes for an answer.
ANSWER: Final = r"(?s)^\W*\w+\W+\w+\W+\w+.*[^?\s]\s*$"


def label_of(sort: str, text: str) -> str:
    """Return the name of a label that notes what a session has seen."""
    return f"{sort}_{zlib.crc32(text.encode()):08x}"


def literal(text: str) -> str:
    """Return a pattern for a text: any white space between its words, and no word of which it is only a part."""
    body = r"\s+".join(str(re2.escape(word)) for word in text.split())
    start = r"\b" if text[:1].isalnum() and text[:1].isascii() else ""
    end = r"(?:$|[^\w-])" if text[-1:].isalnum() and text[-1:].isascii() else ""
    return f"{start}{body}{end}"


def any_of(texts: tuple[str, ...]) -> str:
    """Return a pattern for any of the texts, whatever their case."""
    return "(?i)" + "|".join(literal(text.strip()) for text in texts if text.strip())


def placed(pattern: str, place: str) -> str:
    """Return a pattern that begins with (?i), held to the start or the end of the text."""
    body = pattern.removeprefix("(?i)")
    return {"start": rf"(?i)^\W*(?:{body})", "end": rf"(?i)(?:{body})\W*$"}.get(place, pattern)


def more_than(count: int, unit: str) -> str:
    """Return a pattern for a text with more lines, paragraphs, sentences or questions than are fine."""
    pieces = {
        "lines": r"\S[^\n]*(?:\n\s*|\s*$)",
        "paragraphs": r"\S(?:[^\n]|\n[^\n])*(?:\n\s*\n\s*|\s*$)",
        "sentences": r"[^.!?]*\pL{2}[^.!?]*[.!?]+[\"')\]\x{201d}]*(?:\s+|$)",
        "questions": r"[^?]*\?+",
    }
    start = r"^\s*" if unit != "questions" else "^"
    return f"{start}(?:{pieces[unit]}){{{count + 1}}}"
