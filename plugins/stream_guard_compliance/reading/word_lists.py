"""Lists of words, written as people read them."""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """Return the words that white space separates."""
    return frozenset(text.split())
