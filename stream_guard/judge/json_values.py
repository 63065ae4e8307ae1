"""JSON values: which texts are JSON to every reader, which values are equal, and the bytes that a store keeps of them.

Bytes hold all that JSON can: whole numbers of any size, NaN, lone surrogates.
"""

from __future__ import annotations

import json
from typing import Any, Final

import jiter
import msgspec

from stream_guard._native import is_plain_json
from stream_guard.judge.model import Json

_from_json = jiter.from_json
_DEEP: Final = 100  # levels that are compared by recursion, which is faster than a loop
_ABSENT: Final = object()
_pack: Final = msgspec.msgpack.Encoder().encode
_JSON: Final = b"["  # how a list begins as JSON; no list begins so in msgpack


def check_json(value: bytes, strict_keys: bool = True) -> None:
    """Raise ValueError when a text is not JSON, is nested deeper than 200 levels, or gives a key twice.

    The decoder lets the last of two equal keys win, and nests as deep as the interpreter allows.
    """
    if is_plain_json is None or not is_plain_json(value):
        _from_json(value, catch_duplicate_keys=strict_keys, allow_inf_nan=False)


def written_alike(left: Json, right: Json) -> bool:
    """Whether two values are the same to the byte: most that are equal are, and this takes a tenth of a comparison."""
    try:
        return _pack(left) == _pack(right)
    except (OverflowError, ValueError, TypeError, RecursionError):  # what no encoder takes is compared part by part
        return False


def json_equal(left: Json, right: Json, _level: int = 0) -> bool:
    """Whether two JSON values are equal; true is not 1 and "5" is not 5, but 1 is 1.0, and NaN is NaN."""
    if type(left) is str:
        return bool(left == right)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict):
        return isinstance(right, dict) and len(left) == len(right) and _objects_equal(left, right, _level + 1)
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and _lists_equal(left, right, _level + 1)
    return bool(left == right) or (left != left and right != right)  # noqa: PLR0124  # NaN is the same content as NaN


def _objects_equal(left: dict[str, Json], right: dict[str, Json], level: int) -> bool:
    if level > _DEEP:
        return _deep_equal(left, right)
    for key, item in left.items():
        found = right.get(key, _ABSENT)
        # Most values are strings, and need no call.
        if found is _ABSENT or (item != found if type(item) is str else not json_equal(item, found, level)):
            return False
    return True


def _lists_equal(left: list[Json], right: list[Json], level: int) -> bool:
    if level > _DEEP:
        return _deep_equal(left, right)
    return all(json_equal(item, found, level) for item, found in zip(left, right, strict=True))


def _deep_equal(left: Json, right: Json) -> bool:
    """Compare deeply nested values in a loop: compiled code has no recursion limit and would crash."""
    waiting = [(left, right)]
    for first, second in waiting:  # grows while it is walked
        if isinstance(first, dict):
            if not isinstance(second, dict) or len(first) != len(second):
                return False
            waiting.extend((item, second.get(key, _ABSENT)) for key, item in first.items())
        elif isinstance(first, list):
            if not isinstance(second, list) or len(first) != len(second):
                return False
            waiting.extend(zip(first, second, strict=True))
        elif second is _ABSENT or not json_equal(first, second):
            return False
    return True


def encode(value: Any) -> bytes:
    """Return a list, or a struct that is written as one, as bytes: as msgpack, or as JSON where msgpack has no such."""
    try:
        return _pack(value)
    except (OverflowError, ValueError):  # a whole number beyond 64 bits, half of a surrogate pair
        return json.dumps(msgspec.to_builtins(value, str_keys=True, enc_hook=_packed)).encode()


def _packed(value: object) -> bytes:
    """Return what was packed before; TypeError for anything else that no encoder takes."""
    if type(value) is not msgspec.Raw:
        raise TypeError(f"no encoder takes {type(value).__name__}")
    return bytes(value)


def is_json(data: bytes) -> bool:
    """Whether a value was written as JSON."""
    return data[:1] == _JSON


def decode(data: bytes, kind: Any) -> Any:
    """Return what ``encode`` wrote; raises ValueError or MsgspecError for anything else."""
    if is_json(data):
        return msgspec.convert(json.loads(data), kind, str_keys=True)
    return msgspec.msgpack.decode(data, type=kind)
