"""Texts as a reader sees them: one form for one letter, nothing invisible, look-alikes as the letters they imitate.

The pairs follow Unicode's security data (confusables), for the scripts whose letters pass for Latin ones. A letter is
taken for the one it imitates only inside a word that also has a Latin letter, so Russian or Greek words stay what they
are.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Each Latin letter, and what passes for it: Cyrillic, Greek, Armenian, Cherokee and Latin letters outside ASCII.
_IMITATIONS: Final = {
    "a": "аɑα",
    "b": "ƅЬ",
    "c": "сϲᴄ",
    "d": "ԁɗ",
    "e": "еҽɛ℮",
    "g": "ɡԍց",
    "h": "һհɦ",
    "i": "іıɩιӏΙ",
    "j": "јϳ",
    "k": "кκ",
    "l": "ⅼӀǀ",
    "n": "ոռη",
    "o": "оοօσ",
    "p": "рρ",
    "q": "ԛգ",
    "r": "гᴦ",
    "s": "ѕꜱƽ",
    "t": "тτ",
    "u": "υսʋ",
    "v": "ѵνᴠ",
    "w": "ԝաѡᴡ",
    "x": "хχ",
    "y": "уγүყ",
    "z": "ᴢʐ",
    "A": "АΑᎪ",
    "B": "ВΒᏴ",
    "C": "СϹᏟ",
    "D": "Ꭰ",
    "E": "ЕΕᎬ",
    "F": "ϜҒ",
    "G": "Ԍ",
    "H": "НΗᎻ",
    "I": "ІӀΙ",
    "J": "ЈᎫ",
    "K": "КΚᏦ",
    "L": "Ꮮ",
    "M": "МΜᎷ",
    "N": "Ν",
    "O": "ОΟՕ",
    "P": "РΡᏢ",
    "R": "Ꭱ",
    "S": "ЅՏᏚ",
    "T": "ТΤᎢ",
    "U": "Ս",
    "V": "ѴᏙ",
    "W": "ԜᎳ",
    "X": "ХΧ",
    "Y": "УΥҮ",
    "Z": "ΖᏃ",
    "-": "‐‑‒–—−",
    "_": "ˍ",
}
_FOLDED: Final = {ord(sign): letter for letter, signs in reversed(_IMITATIONS.items()) for sign in signs}
_SIGNS: Final = "".join(map(chr, sorted(_FOLDED)))
_WORD: Final = re.compile(rf"(?:[A-Za-z0-9_]*[{re.escape(_SIGNS)}])+[A-Za-z0-9_]*")
_LATIN: Final = re.compile("[A-Za-z]")
# Controls that separate no words, marks of direction, joiners, soft hyphens, fillers, selectors of variants and tags.
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)

_NUL: Final = "\x00"
_BACKSPACE: Final = "\x08"
_DELETE: Final = "\x7f"
HIDDEN: Final = _NUL + _BACKSPACE + _DELETE
"""The signs of ASCII that hide in a word. Its other invisible signs separate words."""

_KEPT: Final = 100_000  # characters of a text that is kept
_last: Final = [("", "")]  # the text that was looked through last, and what was seen: many rules ask about the same one


def see_through(text: str) -> str:
    """Return the text in NFKC, without invisible signs, and with imitated letters in words that are partly Latin.

    A plain text comes back as it is, the same object.
    """
    if text.isascii() and _NUL not in text and _BACKSPACE not in text and _DELETE not in text:
        return text
    written, seen = _last[0]
    if written != text:
        if text.isascii():  # it is in NFKC, and imitates nothing
            seen = _INVISIBLE.sub("", text)
        else:
            seen = _WORD.sub(_fold_word, _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)))
        if len(text) <= _KEPT:
            _last[0] = (text, seen)
    return seen


def fold_all(text: str) -> str:
    """Return the text with every imitation folded, also in words without a Latin letter: for names, not for prose."""
    return see_through(text).translate(_FOLDED)


def _fold_word(match: re.Match[str]) -> str:
    word = match.group()
    return word.translate(_FOLDED) if _LATIN.search(word) else word
