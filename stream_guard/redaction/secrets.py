"""Secrets in a text: found by their published shapes, by the names beside them, and by where they stand."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

import re2

from stream_guard.judge.patterns import TextSet
from stream_guard.redaction import commands, named
from stream_guard.redaction.formats import FORMATS, SecretFormat
from stream_guard.redaction.named import is_mixed, is_slug, is_wording

# A word may begin behind an underscore, an escaped sign of JSON (\n) or an escaped sign of a URL (%3D).
_BEGIN: Final = r"(?:\b|_|\\[a-z]|\\u[0-9a-fA-F]{4}|%[0-9A-Fa-f]{2})"
_MIXED: Final = "A-Za-z0-9"  # in an alphabet: words can be written in it
_CAPITALS: Final = "[A-Z0-9]{"  # a body without small letters
# A prefix that is known where no word begins: others occur in encoded data by chance.
_TELLING: Final = re.compile(r".*[-_]|[A-Za-z]{4,}")

_Mask = Callable[[Any], str]  # of a match of re2, which has no type


class _Secret(NamedTuple):
    anchor: str  # a short expression that occurs wherever the pattern does
    pattern: str
    mask: _Mask
    glued: str = ""  # the same behind a letter or a digit, as in xsk-...
    mask_glued: _Mask = str
    rewrite: Callable[[str], str] | None = None  # where an expression alone cannot tell


def _shaped(row: SecretFormat) -> _Secret:
    in_words = (is_wording if row.common else is_slug) if _MIXED in row.body else None

    def mask(match: Any) -> str:
        begin, body = match.group(1, 2)
        found: str = match.group()
        return found if in_words is not None and in_words(body) else f"{begin}[masked api key]"

    def mask_glued(match: Any) -> str:
        return mask(match) if is_mixed(match.group(2)) else str(match.group())

    shape = f"(?:{row.prefix})({row.body})"
    if row.body.startswith(_CAPITALS):
        # Behind a small letter they begin anew. Behind a capital or a digit they may be any piece of encoded data.
        return _Secret(row.anchor or row.prefix, f"({_BEGIN}){shape}", mask, f"([a-z]){shape}", mask)
    glued = f"([A-Za-z0-9]){shape}" if in_words is not None and _TELLING.fullmatch(row.prefix) else ""
    return _Secret(row.anchor or row.prefix, f"({_BEGIN}){shape}", mask, glued, mask_glued)


def _labelled(label: str) -> _Mask:
    return lambda _match: f"[masked {label}]"


def _mask_card(match: Any) -> str:
    found: str = match.group()
    return "[masked card number]" if _passes_luhn(found) else found


def _passes_luhn(text: str) -> bool:
    digits = [int(char) for char in text if char.isdigit()]
    doubled = (digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


# Every repeat is bounded or runs over a plain character class, and re2 is linear: this text is the agent's. Shapes come
# before names, because a name alone says less.
_SECRETS: Final[tuple[_Secret, ...]] = (
    _Secret(
        "PRIVATE KEY",
        r"(?s:-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\z))",
        _labelled("private key"),
    ),
    *map(_shaped, FORMATS),
    _Secret(
        "eyJ[A-Za-z0-9_-]{8}",
        r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){0,3}",
        _labelled("web token"),
    ),
    *(_Secret(*secret) for secret in named.SECRETS),
    _Secret(named.ASSIGNED_ANCHOR, "", str, rewrite=named.mask_assigned),
    _Secret(named.OPTION_ANCHOR, "", str, rewrite=named.mask_options),
    _Secret(commands.ANCHOR, "", str, rewrite=commands.mask_commands),
    # Visa, Mastercard, American Express, Discover, JCB, Diners, UnionPay: each with its lengths.
    _Secret(
        "[2-6](?:[ -]?[0-9]){12}",
        r"\b(?:4(?:[ -]?[0-9]){12}(?:(?:[ -]?[0-9]){3}){0,2}|(?:5[ -]?[1-5]|2[ -]?[2-7])(?:[ -]?[0-9]){14}"
        r"|3[ -]?[47](?:[ -]?[0-9]){13}|6[ -]?(?:0[ -]?1[ -]?1|4[ -]?[4-9][ -]?[0-9]|5[ -]?[0-9]{2})(?:[ -]?[0-9]){12}"
        r"|3[ -]?5(?:[ -]?[0-9]){14}|3[ -]?[068](?:[ -]?[0-9]){12}|6[ -]?2(?:[ -]?[0-9]){14,17})\b",
        _mask_card,
    ),
)


_CLEAN: Final[set[str]] = set()
_MOST_CLEAN: Final = 1000
_SHORT: Final = 64  # characters
_LONGEST: Final = 1000  # characters of an id


@cache
def _any_secret() -> TextSet:
    """Return the set that tells which patterns may occur. Most texts hold no secret, and it says so in one pass.

    The set holds anchors, because whole patterns with their long counted repeats make it thirty times slower.
    """
    return TextSet([secret.anchor for secret in _SECRETS])


@cache
def _compiled(pattern: str) -> Any:
    return re2.compile(pattern)


def _remember_clean(text: str) -> None:
    """Remember a short text in which nothing is to be masked: the same labels and names stand in alert after alert."""
    if len(text) <= _SHORT:
        if len(_CLEAN) >= _MOST_CLEAN:
            _CLEAN.clear()
        _CLEAN.add(text)


def mask_id(text: str) -> str:
    """Return an id without secrets, and not too long; two ids that differ only in what is left out still differ."""
    masked = mask_secrets(text[:_LONGEST])
    return text if masked == text else f"{masked}~{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def mask_secrets(text: str) -> str:
    """Return the whole text with ``[masked ...]`` where a secret stood."""
    if not text or text in _CLEAN:  # most findings have no run, and many no agent
        return text
    found = _any_secret().search(text)
    if not found:
        _remember_clean(text)
    for number in sorted(found):
        secret = _SECRETS[number]
        if secret.rewrite is not None:
            text = secret.rewrite(text)
            continue
        text = _compiled(secret.pattern).sub(secret.mask, text)
        if secret.glued:
            text = _compiled(secret.glued).sub(secret.mask_glued, text)
    return text
