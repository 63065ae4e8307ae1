"""JSON for a process that lives a few milliseconds.

``json`` imports ``re``, and that takes longer than an empty Python takes to start. Its work is done by ``_json``, which
CPython brings along; where that is missing, or has changed, ``json`` does all of it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from typing import Any


class _Reading:
    """What the scanner asks of whoever made it, as ``json`` has it."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float  # NaN and its like
    memo: dict[str, str] = {}  # noqa: RUF012  (of names that occur again)


def _refuse(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is no JSON")


try:
    import _json

    _scan: Any = _json.make_scanner(_Reading)  # type: ignore[arg-type]
    _text: Any = _json.encode_basestring_ascii
    _encode: Any = _json.make_encoder(None, _refuse, _text, None, ": ", ", ", False, False, True)
    _quick = _scan("[1]", 0) == ([1], 3) and "".join(_encode({"a": [1]}, 0)) == '{"a": [1]}'
except Exception:  # noqa: BLE001  (another Python: nothing is lost but time)
    _quick = False


def loads(said: bytes) -> Any:
    """Return what a text says; ValueError where it is no JSON, RecursionError where it is too deep."""
    if _quick:
        try:
            text = said.decode().strip(" \t\r\n")
            value, end = _scan(text, 0)
        except (StopIteration, SystemError, ValueError):
            text, value, end = "", None, -1
        if end == len(text):
            return value
    import json  # noqa: PLC0415  (another encoding, or no JSON: then it says what is wrong)

    return json.loads(said)


def dumps(value: Any) -> str:
    """Return a value as JSON."""
    if _quick:
        return "".join(_encode(value, 0))
    import json  # noqa: PLC0415

    return json.dumps(value)
