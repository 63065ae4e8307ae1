"""Single values of a policy file: the YAML 1.2 core schema, limited to the values of JSON."""

from __future__ import annotations

import math
import re
from typing import Final

from stream_guard.policy.codes import Code
from stream_guard.policy.message_parts import show
from stream_guard.policy.nodes import Builder, Mark

_CONSTANTS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_OTHER_BASE: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_NUMBER_START: Final = frozenset("-+.0123456789")
_LARGEST: Final = 2**63
MAX_TEXT: Final = 32_768


def is_plain_text(text: str) -> bool:
    """Whether YAML 1.2 reads the unquoted text as text, not as null, a boolean or a number."""
    if text in _CONSTANTS:
        return False
    patterns = (_INTEGER, _OTHER_BASE, _FLOAT, _NOT_FINITE)
    return text[0] not in _NUMBER_START or not any(pattern.fullmatch(text) for pattern in patterns)


def resolve_plain(text: str, mark: Mark, builder: Builder) -> str | float | bool | None:
    """Return what unquoted YAML text means; dates and words like ``yes`` are text (YAML 1.2)."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMBER_START:
        return check_text(text, mark, builder)
    if _NOT_FINITE.fullmatch(text):
        builder.report_unreadable(mark, f"{text} is not a number a rule can compare with", Code.NOT_PLAIN)
        return None
    if _OTHER_BASE.fullmatch(text):
        return _in_range(int(text, 0), mark, builder)
    if _FLOAT.fullmatch(text):
        return finite(text, mark, builder)
    return check_text(text, mark, builder)


def finite(text: str, mark: Mark, builder: Builder) -> float | None:
    """Return the number; one beyond 64 bits, or not finite, is a problem."""
    if _INTEGER.fullmatch(text):
        # Python refuses to read very long digits; they are out of range in any case.
        return _in_range(int(text) if len(text) < 40 else _LARGEST, mark, builder)
    number = float(text)
    if math.isfinite(number):
        return number
    builder.report_unreadable(mark, f"{show(text)} is too large for a number", Code.NOT_PLAIN)
    return None


def _in_range(number: int, mark: Mark, builder: Builder) -> int | None:
    if -_LARGEST <= number < _LARGEST:
        return number
    builder.report_unreadable(
        mark, "the number does not fit into 64 bits; write it in quotes if it is an identifier", Code.NOT_PLAIN
    )
    return None


def check_text(text: str, mark: Mark, builder: Builder) -> str:
    """Return the text; one that is too long, or has half a surrogate pair in it, is a problem."""
    if len(text) > MAX_TEXT:
        builder.report_unreadable(mark, f"a text of {len(text):,} characters; at most {MAX_TEXT:,}", Code.TOO_BIG)
        return ""
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        builder.report(mark, "an escape (\\ud800 to \\udfff) in this text is half a character", Code.NOT_PLAIN)
        return text.encode("utf-8", "replace").decode()
    return text
