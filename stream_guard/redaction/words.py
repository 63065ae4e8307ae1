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
# A variable, a template or stars in the place of a secret.
_PLACEHOLDER: Final = re.compile(
    r"[\\\"'`]*(?:\$(?:[{(]|[A-Z_][A-Z0-9_]*\b(?!.*[a-z])|[a-z_]+$)|\{\{|<[^>]*>|%[({s]|\*{2,}|[xX]{3,}[\"']?$|\.{3}|\[masked|@?-$|$)"
)
_FILE: Final = re.compile(r"[\w./~\\: -]+")
_FOLDER: Final = re.compile(r"(?:~|\.{1,2})/")
_SUFFIX: Final = re.compile(
    r"\.(?:asc|cer|cfg|conf|crt|csr|der|env|gpg|ini|jks|json|kdbx|key|p12|pem|pfx|ppk|pub|txt|ya?ml)$"
)
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


def is_path(text: str) -> bool:
    """Whether the text names a file: it begins in a folder, or ends like one."""
    if _FILE.fullmatch(text) is None:
        return False
    in_words = text[:1] == "/" and is_wording(text[1:])
    return in_words or _FOLDER.match(text) is not None or _SUFFIX.search(text) is not None


def is_placeholder(text: str) -> bool:
    """Whether the text stands where a secret would: a variable, a template, stars, or what was masked before."""
    return _PLACEHOLDER.match(text) is not None
