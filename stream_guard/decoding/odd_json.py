"""JSON that strict readers refuse and executors take, read so that what a tool does with it can be judged.

NaN, Infinity and numbers that no double holds are read as Python reads them, half a surrogate pair is replaced, and an
object that gives a key twice is kept as its text. Odd numbers and such objects are read only inside what a tool gets or
returns: elsewhere in a record they are refused, because nothing but the monitor reads them.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Final

from stream_guard.judge.arguments import MAX_NESTING, mend_text
from stream_guard.judge.model import Json

# Fields that hold what a tool gets or returns, in all formats.
_OF_TOOLS: Final = frozenset(("args", "arguments", "input", "output", "result"))


class _Twice(str):
    """The text of an object that gives a key twice, or has such an object in it."""

    __slots__ = ()


def read_odd_json(value: bytes) -> Json:
    """Return the value; ValueError or RecursionError when it is not JSON, or odd where nothing may be."""
    found = json.loads(value.decode(), object_pairs_hook=_take_object, parse_int=_take_integer)
    if isinstance(found, _Twice) or _has_twice(found):
        raise ValueError("a key is given twice outside of the arguments of a call")
    _check(found)
    return mend_text(found)


def _take_object(pairs: list[tuple[str, Json]]) -> Json:
    found: dict[str, Json] = {}
    whole = True
    for key, value in pairs:
        whole = whole and key not in found
        if _has_twice(value):
            if key not in _OF_TOOLS:
                whole = False
            else:
                found[key] = _text(value)
                continue
        found[key] = value
    if whole:
        return found
    return _Twice("{" + ", ".join(f"{json.dumps(key)}: {_text(value)}" for key, value in pairs) + "}")


def _take_integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 20 else float(digits)


def _has_twice(value: Json) -> bool:
    return isinstance(value, _Twice) or (isinstance(value, list) and any(map(_has_twice, value)))


def _text(value: Json) -> str:
    """Return a value as JSON text, with objects that give a key twice as they were."""
    if isinstance(value, _Twice):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return json.dumps(value)


def _check_ids(found: dict[str, Json]) -> None:
    """Raise ValueError for half a surrogate pair in an id: replaced, two ids could become one."""
    for key, value in found.items():
        if isinstance(value, str) and key.endswith(("id", "Id")) and value != mend_text(value):
            raise ValueError("half of a surrogate pair stands alone in an id")


def _check(found: Json) -> None:
    """Raise ValueError for what is nested too deep, and for odd numbers outside what a tool gets or returns."""
    layer = [(found, False)]
    for _ in range(MAX_NESTING + 1):
        inner: list[tuple[Json, bool]] = []
        for value, of_tool in layer:
            if isinstance(value, dict):
                _check_ids(value)
                inner += [(item, of_tool or key in _OF_TOOLS) for key, item in value.items()]
            elif isinstance(value, list):
                inner += [(item, of_tool) for item in value]
            elif isinstance(value, float) and not isfinite(value) and not of_tool:
                raise ValueError("a number is too large, or none, outside of what a tool gets or returns")
        if not inner:
            return
        layer = inner
    raise ValueError("objects and arrays are nested too deep")
