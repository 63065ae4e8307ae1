"""Regular expressions as Flakestorm's files have them, Python's, made into ones that run in linear time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stream_guard.patterns import Regex, literal

_END: Final = r"\n?\z"  # Python's `$`: at the end, or before a line break at the end
# What follows two backslashes where somebody meant one: a class, an edge, or a character that is special without.
_DOUBLED: Final = re.compile(r"\\\\[dDwWsSbB.$^*+?()\[\]{}|/-]")


def python_pattern(pattern: str) -> str:
    """Return the pattern for RE2 with the meaning that ``re.search(pattern, text, re.DOTALL)`` gives it.

    Raises ValueError with the reason where it cannot be had in linear time or is no pattern.
    """
    lines = re.match(r"\(\?[a-zA-Z]*m", pattern) is not None  # with (?m), `$` is the end of a line in both
    translated = "(?s)" + "".join(_pieces(pattern, lines=lines))
    try:
        Regex(translated)
    except ValueError:
        Regex(pattern)  # what is wrong with it, in its own words
        raise
    return translated


def _pieces(pattern: str, *, lines: bool) -> Iterator[str]:
    """Yield the pattern with its ends written as RE2 writes them."""
    position, in_class = 0, False
    while position < len(pattern):
        char = pattern[position]
        if char == "\\":
            pair = pattern[position : position + 2]
            yield r"\z" if pair == r"\Z" and not in_class else pair
            position += 2
            continue
        if char == "[" and not in_class:
            in_class = True
            # A bracket that comes first stands for itself.
            first = re.match(r"\[\^?\]?", pattern[position:])
            yield first.group() if first else char
            position += len(first.group()) if first else 1
            continue
        if char == "]":
            in_class = False
        yield _END if char == "$" and not in_class and not lines else char
        position += 1


def any_of(texts: list[str]) -> str:
    """Return the pattern for RE2 that finds any of the texts, whatever their case; an empty text is always found."""
    return f"(?i)(?:{'|'.join(literal(text) for text in texts)})"


def has_doubled_backslashes(pattern: str) -> bool:
    """Whether the pattern looks as if every backslash in it had been doubled, as in YAML's single quotes."""
    single = pattern.replace("\\\\", "")
    return _DOUBLED.search(pattern) is not None and "\\" not in single
