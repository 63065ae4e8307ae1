"""Redaction: excerpts for alerts and logs that are short and hold no secrets."""

from __future__ import annotations

from typing import Any, Final

from stream_guard.judge.model import Json
from stream_guard.redaction.named import SecretName, is_secret_text, secret_name
from stream_guard.redaction.secrets import mask_id, mask_secrets

__all__ = ["MAX_TEXT", "MAX_VALUES", "mask_id", "mask_secrets", "redact", "redact_text"]


# What may be shown of a value: short texts without secrets, and what was left out.


MAX_TEXT: Final = 200  # characters of one string
MAX_ITEMS: Final = 50  # entries of one list or object
MAX_DEPTH: Final = 8
MAX_VALUES: Final = 1000  # of the whole value, nested ones included

_CUT: Final = "…"
# Searched beyond MAX_TEXT, so that a secret across the cut is found whole.
_MARGIN: Final = 4096


def redact(value: Json, longest: int = MAX_TEXT) -> Json:
    """Return the value as it may be shown in an alert.

    Secrets become ``[masked ...]``, strings are cut to ``longest`` characters, and large or deep values say
    what was left out. What is not JSON becomes its text. Mail addresses and account numbers stay: they are
    what the person on call has to judge.
    """
    return _Redaction(longest).value(value, 0)


def redact_text(text: str, longest: int = MAX_TEXT) -> str:
    """Return the text without secrets, cut to ``longest`` characters."""
    if len(text) > longest + _MARGIN:
        # The last word may be half a secret, which no pattern matches.
        head = text[: longest + _MARGIN]
        text = head.rsplit(None, 1)[0] if any(map(str.isspace, head)) else head
        shortened = True
    else:
        shortened = False
    if not text.isascii():
        # In-process callers can hand over a lone surrogate, which no sink could write.
        text = text.encode("utf-8", "replace").decode()
    masked = mask_secrets(text)
    if len(masked) > longest:
        return masked[: longest - 1] + _CUT
    return masked + _CUT if shortened else masked


class _Redaction:
    """Redacts one value, and counts how many nested values it has shown."""

    __slots__ = ("_left", "_longest")

    def __init__(self, longest: int) -> None:
        self._left = MAX_VALUES
        self._longest = longest

    def value(self, value: Json, depth: int) -> Json:
        self._left -= 1
        if isinstance(value, str):
            return redact_text(value, self._longest)
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            # A card number may be an integer; an integer beyond 64 bits breaks readers of the alert.
            return value if -(10**12) < value < 10**12 else _long_number(value)
        if isinstance(value, dict | list | tuple | set | frozenset):
            if depth >= MAX_DEPTH or self._left <= 0:
                return f"[{len(value)} values left out]"
            return self._object(value, depth) if isinstance(value, dict) else self._list(list(value), depth)
        return redact_text(str(value), self._longest)

    def _object(self, value: dict[Any, Json], depth: int) -> dict[str, Json]:
        shown: dict[str, Json] = {}
        for number, (key, item) in enumerate(value.items()):
            if number == MAX_ITEMS:
                shown[_CUT] = f"[{len(value) - MAX_ITEMS} more]"
                break
            name = redact_text(str(key))
            shown[name] = "[masked]" if _is_hidden(name, item) else self.value(item, depth + 1)
        return shown

    def _list(self, items: list[Json], depth: int) -> list[Json]:
        shown = [self.value(item, depth + 1) for item in items[:MAX_ITEMS]]
        return [*shown, f"[{len(items) - MAX_ITEMS} more]"] if len(items) > MAX_ITEMS else shown


def _is_hidden(name: str, item: Json) -> bool:
    """Whether what stands under a name is masked whole. A yes or a no is no secret."""
    if item is None or isinstance(item, bool):
        return False
    if isinstance(item, str):
        return is_secret_text(name, item)
    level = secret_name(name)
    if level is SecretName.TEXT or level is SecretName.CHANCE:
        return isinstance(item, list | tuple) and any(
            isinstance(one, str) and is_secret_text(name, one) for one in item
        )
    return level is not SecretName.NO


def _long_number(value: int) -> Json:
    if not -(2**63) <= value < 2**63:
        return f"[a number of {value.bit_length()} bits]"
    return "[masked card number]" if redact_text(str(value)).startswith("[masked") else value
