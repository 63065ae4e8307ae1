"""Whether a piece of text is wording or chance: what begins like a key may be a file name or a slug."""

from __future__ import annotations

import re
from typing import Final

_PIECE: Final = re.compile(r"[^-_./+=~]+")
# Letters and a short number behind them, or a short number alone: `report`, `q1`, `2026`, `3rd`.
_WORD_OR_NUMBER: Final = re.compile(r"[A-Za-z]*[0-9]{0,4}|[0-9]{1,4}[a-z]{0,2}")
_HUMP: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_VOWEL: Final = re.compile(r"[aeiouyAEIOUY]")
_RUN: Final = re.compile(r"[A-Z]+|[a-z]+|[0-9]+")
_RUNS: Final = 5  # runs of one sort of sign; sixteen drawn ones have ten on average
_LONGEST: Final = 20  # letters of a word
_USUAL: Final = 3.5  # letters of a word on average, where only capitals divide them


def is_slug(text: str) -> bool:
    """Whether the text is several words and numbers in one case; chance mixes cases or puts digits between letters."""
    pieces = _PIECE.findall(text)
    words = [piece for piece in pieces if _WORD_OR_NUMBER.fullmatch(piece)]
    return len(words) == len(pieces) > 1 and (text.islower() or text.isupper()) and max(map(len, words)) <= _LONGEST


def is_wording(text: str) -> bool:
    """Whether the text is a slug, or words that capitals divide, as in ``getElementsByName``."""
    if is_slug(text):
        return True
    if not all(_WORD_OR_NUMBER.fullmatch(piece) for piece in _PIECE.findall(text)):
        return False
    humps = _HUMP.findall(text)
    if not humps or max(map(len, humps)) > _LONGEST or sum(map(len, humps)) < _USUAL * len(humps):
        return False
    return all(_VOWEL.search(hump) for hump in humps if len(hump) > 1)


def is_mixed(text: str) -> bool:
    """Whether the text changes often between capitals, small letters and digits; numbers of things keep to one case."""
    in_one_case = text == text.lower() or text == text.upper()
    return not in_one_case and len(_RUN.findall(text)) >= _RUNS
