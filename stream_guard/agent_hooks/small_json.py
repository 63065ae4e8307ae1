"""Plain JSON, read and written without ``json``, which takes longer to import than a hook without a gate may take.

What is not plain (a fraction, an escape by number, great depth or length, anything that is no JSON) is left to
``json``: then both give the same value, or the same error. No decision is made of what is read here: a gate reads the
payload itself.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from typing import Any

_LONGEST, _DEEPEST = 65536, 50
_SPACE = " \t\r\n"
_WORDS = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class _OtherError(Exception):
    """This is not plain."""


def loads(said: bytes) -> Any:
    """Return what a text says; ValueError where it is no JSON, RecursionError where it is too deep."""
    if len(said) <= _LONGEST:
        try:
            text = said.decode().strip(_SPACE)
            value, end = _value(text, 0, 0)
        except (_OtherError, IndexError, UnicodeDecodeError):
            pass
        else:
            if end == len(text):
                return value
    import json  # noqa: PLC0415

    return json.loads(said)


def dumps(value: Any) -> str:
    """Return a value as JSON."""
    try:
        return _written(value)
    except _OtherError:
        import json  # noqa: PLC0415

        return json.dumps(value)


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    """Return the value that begins at a place, and where it ends."""
    sign = text[at]
    if sign == '"':
        return _string(text, at + 1)
    if sign in "{[" and depth < _DEEPEST:
        return (_object if sign == "{" else _list)(text, _skip(text, at + 1), depth + 1)
    word, value = _WORDS.get(sign, ("", None))
    if word and text.startswith(word, at):
        return value, at + len(word)
    return _number(text, at)


def _object(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    if text[at] == "}":
        return found, at + 1
    while True:
        if text[at] != '"':
            raise _OtherError
        name, at = _string(text, at + 1)
        at = _skip(text, at)
        if text[at] != ":":
            raise _OtherError
        found[name], at = _value(text, _skip(text, at + 1), depth)
        at = _skip(text, at)
        if text[at] == "}":
            return found, at + 1
        at = _next(text, at)


def _list(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    if text[at] == "]":
        return found, at + 1
    while True:
        value, at = _value(text, at, depth)
        found.append(value)
        at = _skip(text, at)
        if text[at] == "]":
            return found, at + 1
        at = _next(text, at)


def _next(text: str, at: int) -> int:
    if text[at] != ",":
        raise _OtherError
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at


def _string(text: str, at: int) -> tuple[str, int]:
    parts: list[str] = []
    quote = -1
    while True:
        if quote < at:
            quote = text.find('"', at)
        if quote < 0:
            raise _OtherError
        slash = text.find("\\", at, quote)
        part = text[at : quote if slash < 0 else slash]
        if min(part, default=" ") < " ":
            raise _OtherError
        parts.append(part)
        if slash < 0:
            return "".join(parts), quote + 1
        escaped = _ESCAPES.get(text[slash + 1])
        if escaped is None:
            raise _OtherError
        parts.append(escaped)
        at = slash + 2


def _number(text: str, at: int) -> tuple[int, int]:
    end = at + (text[at] == "-")
    first = end
    while end < len(text) and text[end] in "0123456789":
        end += 1
    digits = text[first:end]
    fraction = end < len(text) and text[end] in ".eE"
    if not digits or (digits[0] == "0" and len(digits) > 1) or fraction or len(digits) > 18:
        raise _OtherError
    return int(text[at:end]), end


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_written(name)}: {_written(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if not isinstance(value, str) or not value.isascii() or not value.isprintable():
        raise _OtherError
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
