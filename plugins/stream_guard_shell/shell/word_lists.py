"""Lists of words, written as people read them."""

from __future__ import annotations


def word_list(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())
