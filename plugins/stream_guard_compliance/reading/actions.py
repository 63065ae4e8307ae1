"""The stems of words, by which an action in words and the name of a tool are compared."""

from __future__ import annotations

from typing import Final

_ENDINGS: Final = ("ellations", "ellation", "ies", "ied", "ations", "ation", "ings", "ing", "ed", "es", "s", "e")


def stem(word: str) -> str:
    """Return the beginning that the forms of a word share, roughly: cancel, cancelling, cancellation."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + ("el" if ending.startswith("ell") else "")
            break
    if len(word) > 4 and word[-1] == word[-2]:
        word = word[:-1]
    return word[:-1] if word.endswith("y") and len(word) > 3 else word
