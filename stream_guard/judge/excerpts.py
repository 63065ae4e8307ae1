"""What is kept of arguments: excerpts of what the policy reads, in place of values that are large or stored."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from stream_guard.judge.model import Json
from stream_guard.judge.paths import MISSING

_EXCERPT_LIMIT: Final = 1024  # bytes of one argument that a stored session keeps for a key or a gate
_CERTAINLY_SMALL: Final = 256  # bytes of msgpack, whatever stands in it; measuring each value costs more than the rules
_LARGE: Final = 16_384  # bytes, about, of arguments that are kept whole in memory until the result comes
_encode: Final = msgspec.msgpack.Encoder().encode

Wanted: TypeAlias = dict[str, Any]
"""Places in arguments, as steps inside steps; an empty one stands for the whole value."""


def wanted_places(paths: frozenset[tuple[str, ...]]) -> Wanted:
    """Return the places of paths; one inside another is left out, as the whole value has it."""
    places: Wanted = {}
    for steps in sorted(paths, key=len):
        inner, is_inside = places, False
        for step in steps[:-1]:
            if inner.get(step) == {}:
                is_inside = True
                break
            inner = inner.setdefault(step, {})
        if not is_inside:
            inner.setdefault(steps[-1], {})
    return places


def excerpt(args: Json, places: Wanted) -> Json:
    """Return of arguments what stands at the places, in new objects; an index into a list becomes a key."""
    if isinstance(args, str):
        return ""  # text that is not JSON: still to be told from arguments without a value
    kept = _excerpt(args, places) if places else MISSING
    return None if kept is MISSING else kept


def _excerpt(value: Json, places: Wanted) -> Json:
    if not places:
        return value if _can_be_kept(value) else MISSING
    found: dict[str, Json] = {}
    for step, inner in places.items():
        if type(value) is dict:
            item = value.get(step, MISSING)
        elif isinstance(value, list) and step.isascii() and step.isdigit() and int(step) < len(value):
            item = value[int(step)]
        else:
            return MISSING
        kept = MISSING if item is MISSING else _excerpt(item, inner)
        if kept is not MISSING:
            found[step] = kept
    return found or MISSING


def _can_be_kept(value: Json) -> bool:
    try:
        return len(_encode(value)) <= _EXCERPT_LIMIT
    except (OverflowError, ValueError):  # a whole number beyond 64 bits, half a surrogate pair: rows can hold them
        return len(repr(value)) <= _EXCERPT_LIMIT
    except (TypeError, RecursionError):  # of callers in this process: what JSON does not have, or too deep
        return False


def is_large(value: Json) -> bool:
    """Whether a value takes more memory than an open call may keep of it."""
    if type(value) is not dict:
        return _is_large_within(value)
    left = _LARGE - 64 * len(value)
    for key, item in value.items():
        if type(item) is str:
            left -= len(item)
        elif isinstance(item, dict) or isinstance(item, list):  # noqa: SIM101  # compiled, a union is made each time
            return _is_large_within(value)
        left -= len(key) if type(key) is str else len(str(key))  # a caller in this process may pass anything
    return left < 0


def _is_large_within(value: Json) -> bool:
    """Whether a value that holds others is large; most are so small in a row that nothing in them need be measured."""
    try:
        if len(_encode(value)) < _CERTAINLY_SMALL:
            return False
    except (OverflowError, ValueError, TypeError, RecursionError):
        pass  # what no encoder takes is measured as it is
    left = _LARGE
    waiting = [value]
    for item in waiting:  # grows while it is walked
        if type(item) is str:
            left -= len(item)
        elif type(item) is dict:
            left -= 64 * len(item) + sum(map(len, map(str, item)))
            waiting += item.values()
        elif isinstance(item, list):
            left -= 64 * len(item)
            waiting += item
        if left < 0:
            return True
    return False
