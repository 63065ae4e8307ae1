"""Translates Python regular expressions, as Flakestorm's files have them, for RE2, which runs in linear time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from stream_guard import Regex, literal

_END: Final = r"(?:\n?\z)"  # Python's `$`: at the end, or before a line break at the end
# Python's classes are Unicode, RE2's only ASCII. The first translation is for outside brackets, the second for inside.
_WORD: Final = r"\p{L}\p{N}_"
_SPACE: Final = r"\s\p{Z}\x0b\x{1c}-\x{1f}\x{85}"
_ESCAPES: Final = {
    r"\d": (r"\p{Nd}", r"\p{Nd}"),
    r"\D": (r"\P{Nd}", r"\P{Nd}"),
    r"\w": (f"[{_WORD}]", _WORD),
    r"\W": (f"[^{_WORD}]", r"\W"),
    r"\s": (f"[{_SPACE}]", _SPACE),
    r"\S": (f"[^{_SPACE}]", r"\S"),
    r"\Z": (r"\z", r"\Z"),
}
# The tokens of a pattern; a "]" right after "[" or "[^" is a literal.
_PIECE: Final = re.compile(r"(?s)\\.|\[\^?\]?|\{,\d+\}|.")
# What follows a doubled backslash where a single one was meant: a class, an anchor, or a special character.
_DOUBLED: Final = re.compile(r"\\\\[dDwWsSbB.$^*+?()\[\]{}|/-]")


@lru_cache(maxsize=128)  # each is translated twice: when the contract is checked, and when it is compiled
def python_pattern(pattern: str) -> str:
    r"""Return the pattern for RE2 with the meaning that ``re.search(pattern, text, re.DOTALL)`` gives it.

    Only ``\b``, and ``\W`` and ``\S`` inside brackets, stay ASCII. Raises ValueError with the reason where it is no
    pattern, or cannot run in linear time.
    """
    translated = "(?s)" + "".join(_pieces(pattern))
    try:
        Regex(translated)
    except ValueError:
        Regex(pattern)  # raises the error in terms of the original pattern
        raise
    return translated


def _pieces(pattern: str) -> Iterator[str]:
    """Yield the tokens of the pattern, translated where RE2 has another spelling."""
    lines = re.match(r"\(\?[a-zA-Z]*m", pattern) is not None  # with (?m), `$` is the end of a line in both
    inside = False
    position = 0
    while match := _PIECE.match(pattern, position):
        piece = match.group()
        if inside and piece[0] in "[{":
            piece = piece[0]
        position += len(piece)
        if piece in _ESCAPES:
            yield _ESCAPES[piece][inside]
        elif piece.startswith("{,"):
            yield f"{{0{piece[1:]}"
        elif piece == "$" and not inside and not lines:
            yield _END
        elif inside and piece == "[":
            yield r"\["  # RE2 could read it as the start of a named class
        else:
            inside = piece[0] == "[" if not inside else piece != "]"
            yield piece


def any_of(texts: list[str]) -> str:
    """Return the RE2 pattern that finds any of the texts, ignoring case; an empty text is always found."""
    return f"(?i)(?:{'|'.join(literal(text) for text in texts)})"


def has_doubled_backslashes(pattern: str) -> bool:
    """Whether every backslash in the pattern is doubled, as happens in YAML's single quotes."""
    single = pattern.replace("\\\\", "")
    return _DOUBLED.search(pattern) is not None and "\\" not in single
