"""How bad it is to break a rule, by the words of its sentence and the sort of rule it is."""

from __future__ import annotations

from typing import Final

import re2

from stream_guard_compliance.reading import Reading, SeverityWord

_ORDER: Final[tuple[SeverityWord, ...]] = ("low", "medium", "high", "critical")
_CRITICAL: Final = re2.compile(
    r"(?i)\b(?:never|do not|don.t|must not|mustn.t|under no circumstances?|prohibited|forbidden|strictly"
    r"|explicit|critical)\b"
)
_HIGH: Final = re2.compile(
    r"(?i)\b(?:must|shall|cannot|can.t|may not|only|requires?|required|needs?|have to|has to|not allowed|manager)\b"
)
_SOFT: Final = re2.compile(r"(?i)\b(?:should|try|prefer|ideally|avoid|please|aim|consider)\b")
_STYLE: Final = re2.compile(
    r"(?i)\b(?:friendly|polite\w*|concise|brief|tone|helpful|professional|warm|empath\w+|clear|style|kind"
    r"|short|simple)\b"
)


def severity_of(sentence: str, reading: Reading) -> SeverityWord:
    """Return the severity: the strongest words decide, and some sorts of rules have a ceiling."""
    if reading.kind == "ambiguous":
        return "low" if _STYLE.search(sentence) else "medium"
    if reading.kind == "limit":
        return _of_limit(reading)
    if reading.kind == "require_output":
        return "medium" if reading.items in (("citation",), ("json",)) else "low"
    if reading.kind == "require_tool":
        return "high" if _HIGH.search(sentence) else "medium"
    word: SeverityWord = "medium"
    if _CRITICAL.search(sentence):
        word = "critical"
    elif _HIGH.search(sentence) or (reading.kind == "confirm_before" and not _SOFT.search(sentence)):
        word = "high"
    if reading.kind == "forbid_output" and not _is_sensitive(reading):
        return _least(word, "medium")
    return word


def _of_limit(reading: Reading) -> SeverityWord:
    about = reading.items[0] if reading.items else ""
    if about.startswith(("words", "chars", "sentences", "paragraphs", "lines", "tokens")):
        return "low"
    return "high" if about.startswith("failures") else "medium"


def _is_sensitive(reading: Reading) -> bool:
    return any(item.startswith("pii") or item in {"system_prompt", "secrets"} for item in reading.items)


def _least(one: SeverityWord, other: SeverityWord) -> SeverityWord:
    return min(one, other, key=_ORDER.index)
