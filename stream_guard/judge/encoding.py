"""Bytes of values that a store keeps. What JSON can hold, they can: whole numbers of any size, NaN, lone surrogates."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

_pack: Final = msgspec.msgpack.Encoder().encode
_JSON: Final = b"["  # how a list begins as JSON; no list begins so in msgpack


def encode(value: Any) -> bytes:
    """Return a list, or a struct that is written as one, as bytes: as msgpack, or as JSON where msgpack has no such."""
    try:
        return _pack(value)
    except (OverflowError, ValueError):  # a whole number beyond 64 bits, half of a surrogate pair
        return json.dumps(msgspec.to_builtins(value, str_keys=True)).encode()


def is_json(data: bytes) -> bool:
    """Whether a value was written as JSON."""
    return data[:1] == _JSON


def decode(data: bytes, kind: Any) -> Any:
    """Return what ``encode`` wrote; raises ValueError or MsgspecError for anything else."""
    if is_json(data):
        return msgspec.convert(json.loads(data), kind, str_keys=True)
    return msgspec.msgpack.decode(data, type=kind)
