"""Fingerprints of values: the same in another case, split, or written in base64, hexadecimal or as a URL."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final
from unicodedata import normalize
from urllib.parse import unquote

from xxhash import xxh3_64_intdigest

MOST_TEXT: Final = 200_000
"""Characters of one text that are looked at. A rule that looks for a value in a longer one could not judge."""

_QUOTES: Final = "\u2018\u2019\u201c\u201d\u00ab\u00bb"
_SEPARATORS: Final = b"\"'<>(){}[],;`|"
_LOWER: Final = bytes.maketrans(bytes(range(65, 91)) + _SEPARATORS, bytes(range(97, 123)) + b" " * len(_SEPARATORS))
_DROPPED: Final = bytes(code for code in range(33, 128) if not chr(code).isalnum() and code not in _SEPARATORS)
_BLANKS: Final = bytes(code for code in range(128) if chr(code).isspace())
_NUMBER: Final = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")
_HEX: Final = re.compile(r"[0-9A-Fa-f]{8,}")
_MOST_DECODED: Final = 64
# The first character of base64 tells the upper bits of a byte, which in a text are those of a printable character or of
# the first byte of a longer one. Most words begin otherwise, and need not be decoded. Hexadecimal text begins alike.
_ENCODED: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[C-FI-Za-fw-z0-9+/_-][A-Za-z0-9+/_-]{7,}={0,2}")
_SHORTEST: Final = 8  # characters of a word that may be encoded
_SHARED: Final = 8  # texts of one event, which several rules ask about


def fingerprint(text: str) -> int:
    """Return the fingerprint of a text: 56 bits, so that two values hardly ever share one."""
    return int(xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))) >> 8


def letters_and_digits(text: str) -> str:
    """Return the letters and digits of a text in lower case, with look-alike forms made plain."""
    return "".join(pieces_of(text))


def pieces_of(text: str) -> list[str]:
    """Return the letters and digits of each piece of a text; blanks, quotes, brackets and commas separate pieces."""
    if text.isascii():
        return text.encode().translate(_LOWER, _DROPPED).decode().split()
    plain = "".join(
        char if char.isalnum() or char.isspace() else _sign_or_blank(char) for char in normalize("NFKC", text)
    )
    # In UTF-8 the bytes of other characters are above those that are looked for.
    data = plain.lower().encode("utf-8", "surrogatepass").translate(_LOWER, _DROPPED)
    return data.decode("utf-8", "surrogatepass").split()


def without_blanks(text: str) -> tuple[str, str]:
    """Return a text in lower case without blanks, and its letters and digits alone."""
    if not text.isascii():
        plain = "".join(text.lower().split())
        return plain, letters_and_digits(plain)
    data = text.encode().lower().translate(None, _BLANKS)
    return data.decode(), data.translate(None, _DROPPED + _SEPARATORS).decode()


def _sign_or_blank(char: str) -> str:
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


def value_fingerprints(text: str) -> list[int]:
    """Return the fingerprints of a value that is one: as a number, and as its letters and digits."""
    number = number_in(text)
    return [fingerprint(number)] if number else [fingerprint(short)] if (short := letters_and_digits(text)) else []


@lru_cache(maxsize=_SHARED)
def fingerprints_of(text: str, longest: int, *, dense: bool = False) -> frozenset[int]:
    """Return the fingerprints of the pieces and numbers of a text, and of up to ``longest`` pieces in a row.

    Pieces in a row are joined where one of them has a digit, as people split account numbers; ``dense``: always.
    """
    found = joined_pieces(text, longest, dense=dense)
    if not "".join(found).isalpha():
        found.update(number for written in _NUMBER.findall(text[:MOST_TEXT]) if (number := number_in(written)))
    return frozenset([xxh3_64_intdigest(one.encode("utf-8", "surrogatepass")) >> 8 for one in found])


def joined_pieces(text: str, longest: int, *, dense: bool = False) -> set[str]:
    """Return the pieces of a text, and up to ``longest`` of them in a row as one."""
    pieces = pieces_of(text[:MOST_TEXT])
    found = set(pieces)
    for start in range(len(pieces)) if dense else _near_digits(pieces, longest):
        joined = pieces[start]
        for piece in pieces[start + 1 : start + longest]:
            joined += piece
            found.add(joined)
    return found


def _near_digits(pieces: list[str], longest: int) -> list[int]:
    """Return the places from which ``longest`` pieces in a row reach one that is not only letters."""
    if "".join(pieces).isalpha():
        return []
    spots = [place for place, piece in enumerate(pieces) if not piece.isalpha()]
    return sorted({start for spot in spots for start in range(max(0, spot - longest + 1), spot + 1)})


@lru_cache(maxsize=_SHARED)
def decoded_forms(text: str) -> tuple[str, ...]:
    """Return the text, and what it says where a part of it is encoded as a URL, in base64 or in hexadecimal."""
    plain = _plain(text)
    if len(plain) < _SHORTEST and "%" not in plain and plain.isascii():
        return (plain,)
    found = [plain]
    if "%" in plain and (unquoted := unquote(plain)) != plain:
        found.append(unquoted)
    for text_so_far in found:  # grows while it is walked: what was decoded may be encoded again
        words = dict.fromkeys([word for word in text_so_far.split() if len(word) >= _SHORTEST])
        for written in _ENCODED.findall(" ".join(words)):
            if len(found) >= _MOST_DECODED:
                break
            found += _decoded(written)
    return tuple(found)


def is_read_whole(text: str, forms: Sequence[str]) -> bool:
    """Whether all of a text is looked at, and all that is encoded in it; ``forms`` are its decoded forms."""
    return len(text) <= MOST_TEXT and len(forms) < _MOST_DECODED


def _decoded(written: str) -> Iterator[str]:
    if len(written) % 2 == 0 and _HEX.fullmatch(written) is not None:
        yield from _printable(bytes.fromhex(written))
    body = written.rstrip("=").replace("-", "+").replace("_", "/")
    if len(body) % 4 == 1:  # no base64 is so long
        return
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


def drop_oldest(fingerprints: dict[int, int], most: int) -> None:
    """Forget the oldest fingerprints beyond ``most``."""
    if len(fingerprints) > most:
        for old in list(islice(fingerprints, len(fingerprints) - most)):
            del fingerprints[old]
