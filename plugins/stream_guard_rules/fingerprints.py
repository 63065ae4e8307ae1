"""Fingerprints of values: the same in another case, split, or written in base64, hexadecimal or as a URL."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from itertools import islice
from typing import Final
from unicodedata import normalize
from urllib.parse import unquote

import re2
from xxhash import xxh3_64_intdigest

import stream_guard as sg

MOST_TEXT: Final = 20_000
"""Characters of one text that are looked at."""

_QUOTES: Final = "\u2018\u2019\u201c\u201d\u00ab\u00bb"
_PLAIN: Final = str.maketrans(
    {chr(code): chr(code).lower() if chr(code).isalnum() else None for code in range(33, 128)}
    | dict.fromkeys("\"'<>(){}[],;`|", " ")
)
_NUMBER: Final = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")
_BASE64: Final = re2.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX: Final = re2.compile(r"(?:[0-9A-Fa-f]{2}){4,}")
_MOST_DECODED: Final = 16


def mark(text: str) -> int:
    """Return the fingerprint of a text: 56 bits, so that two values hardly ever share one."""
    return int(xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))) >> 8


def compact(text: str) -> str:
    """Return the letters and digits of a text in lower case, with look-alike forms made plain."""
    return "".join(pieces_of(text))


def pieces_of(text: str) -> list[str]:
    """Return the letters and digits of each piece of a text; blanks, quotes, brackets and commas separate pieces."""
    if text.isascii():
        return text.translate(_PLAIN).split()
    plain = "".join(char if char.isalnum() or char.isspace() else _mask(char) for char in normalize("NFKC", text))
    return plain.lower().translate(_PLAIN).split()


def _mask(char: str) -> str:
    return char if char.isascii() else " " if char in _QUOTES else ""


def number_in(piece: str) -> str:
    """Return the number that a piece of text is, in one form for 20, 20.0 and $20.00; empty where it is none."""
    bare = piece.strip("$€£%.:!?+").replace(",", "")
    if not bare or not bare[-1].isdigit() or len(bare) > 30:
        return ""
    try:
        return f"={float(bare):.12g}"
    except ValueError:
        return ""


def mark_value(text: str) -> list[int]:
    """Return the fingerprints of a value that is one: as a number, and as its letters and digits."""
    number = number_in(text)
    return [mark(number)] if number else [mark(short)] if (short := compact(text)) else []


def marks_of(text: str, longest: int, *, dense: bool = False) -> set[int]:
    """Return the fingerprints of the pieces and numbers of a text, and of up to ``longest`` pieces in a row.

    Pieces in a row are joined where one of them has a digit, as people split account numbers; ``dense``: always.
    """
    plain = text[:MOST_TEXT]
    pieces = pieces_of(plain)
    found = set(pieces)
    found.update(number for written in _NUMBER.findall(plain) if (number := number_in(written)))
    for start in range(len(pieces)) if dense else _near_digits(pieces, longest):
        joined = pieces[start]
        for piece in pieces[start + 1 : start + longest]:
            joined += piece
            found.add(joined)
    return set(map(mark, found))


def _near_digits(pieces: list[str], longest: int) -> list[int]:
    """Return the places from which ``longest`` pieces in a row reach one that is not only letters."""
    if "".join(pieces).isalpha():
        return []
    spots = [place for place, piece in enumerate(pieces) if not piece.isalpha()]
    return sorted({start for spot in spots for start in range(max(0, spot - longest + 1), spot + 1)})


def readings(text: str) -> list[str]:
    """Return the text, and what it says where a part of it is encoded as a URL, in base64 or in hexadecimal."""
    plain = _plain(text)
    found = [plain]
    if "%" in plain and (unquoted := unquote(plain)) != plain:
        found.append(unquoted)
    for text_so_far in found[:2]:
        for match in _BASE64.finditer(text_so_far):
            if len(found) >= _MOST_DECODED:
                break
            found += _decoded(match.group())
    return found


def _decoded(written: str) -> Iterator[str]:
    if len(written) % 2 == 0 and _HEX.fullmatch(written) is not None:
        yield from _printable(bytes.fromhex(written))
    body = written.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        yield from _printable(b64decode(body + "=" * (-len(body) % 4), validate=True))
    except (binascii.Error, ValueError):
        return


def _printable(data: bytes) -> Iterator[str]:
    """Yield the text of the bytes if it is one that a person could have written."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    if len(text) >= 4 and text.isprintable():
        yield text


def _plain(text: str) -> str:
    return text[:MOST_TEXT].encode("utf-8", "replace").decode()


def texts_in(value: sg.Json) -> Iterator[str]:
    """Yield every text and number of a JSON value as text; the keys of objects are left out."""
    waiting = [value]
    for item in waiting:  # grows while it is walked
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield f"{item:x}" if isinstance(item, int) and abs(item) > 10**4000 else str(item)


def keep_newest(marks: dict[int, int], most: int) -> None:
    """Forget the oldest fingerprints beyond ``most``."""
    if len(marks) > most:
        for old in list(islice(marks, len(marks) - most)):
            del marks[old]
