r"""Escapes of ``$'..'``, ``echo -e`` and ``printf``: ``\n``, ``\x41``, ``\101``."""

from __future__ import annotations

import re
from typing import Final

_SIMPLE: Final = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(0?[0-7]{1,3})|c(.)|(.))", re.DOTALL
)


def ansi_text(text: str) -> str:
    """Return the text with its escapes replaced; a NUL ends what bash keeps, so it is left out."""
    return "".join(ansi_parts(text))


def ansi_parts(text: str) -> list[str]:
    """Return the texts between the NULs of a text with its escapes replaced."""
    return _ESCAPE.sub(_replace, text).split("\0")


def _replace(found: re.Match[str]) -> str:
    for number in (1, 2, 3):
        if found.group(number):
            code = int(found.group(number), 16)
            return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else ""
    if found.group(4):
        return chr(int(found.group(4), 8) & 0xFF)
    if found.group(5):
        return chr(ord(found.group(5)) & 0x1F)
    return _SIMPLE.get(found.group(6), "\\" + found.group(6))
