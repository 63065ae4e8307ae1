"""Fingerprints of values: the same in another case, split, or written in base64, hexadecimal or as a URL."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from typing import Final
from unicodedata import normalize
from urllib.parse import unquote

import re2

import stream_guard as sg

MOST_TEXT: Final = 20_000
"""Characters of one text that are looked at."""

_PIECE: Final = re2.compile(r"[^\s\"'<>(){}\[\],;`|]+")
_NUMBER: Final = re2.compile(r"\b[0-9][0-9,]*(?:\.[0-9]+)?\b")
_BASE64: Final = re2.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX: Final = re2.compile(r"(?:[0-9A-Fa-f]{2}){4,}")
_MOST_DECODED: Final = 16


def mark(text: str) -> int:
    """Return the fingerprint of a text.

    It is cryptographic: whoever writes a poisoned page must not find a value that passes for one of the user's.
    """
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=7).digest(), "big")


def compact(text: str) -> str:
    """Return the letters and digits of a text in lower case, with look-alike forms made plain."""
    plain = text if text.isascii() else normalize("NFKC", text)
    return "".join(char for char in plain.lower() if char.isalnum())


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


def marks_of(text: str, longest: int) -> Iterator[int]:
    """Yield the fingerprint of each piece of a text, and of up to ``longest`` pieces in a row joined to one."""
    plain = _plain(text)
    yield from (mark(number) for match in _NUMBER.finditer(plain) if (number := number_in(match.group())))
    pieces = [piece for match in _PIECE.finditer(plain) if (piece := compact(match.group()))]
    for start in range(len(pieces)):
        joined = ""
        for piece in pieces[start : start + longest]:
            joined += piece
            yield mark(joined)


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
