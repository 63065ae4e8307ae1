"""Records hit by something: bytes that flip, and JSON in which values change their sort, place, size and name."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

# What tends to break readers: extremes, other sorts, names that mean something elsewhere, and texts that are no text.
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1e308,
    -(2**63),
    2**64,
    10**400,
    0.1,
    "",
    "0",
    "null",
    "{}",
    "[",
    '{"a": {"b": [1]}}',
    "\x00",
    "\ud800",
    "\u202e\u0007",
    "\uff41" * 700,
    "1" * 5000,
    "2026-02-30T25:61:61Z",
    "9" * 30,
    "AAAA",
    [],
    {},
    [[[]]],
    [None],
    {"": None},
    {"role": []},
    {"type": {}},
    {"text": 1, "content": [1, None, {}]},
    {"function": [], "arguments": {}},
)
NAMES = (
    "role",
    "type",
    "content",
    "messages",
    "tool_calls",
    "id",
    "name",
    "kind",
    "time",
    "session_id",
    "attributes",
    "value",
    "traceId",
    "spans",
    "input",
    "output",
    "kwargs",
    "lc",
)
BYTES = (
    b"",
    b"\x00",
    b"\xff",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\",
    b"\\u",
    b"\\ud800",
    b",",
    b":",
    b"e9",
    b"NaN",
    b"\n",
)

Holder = dict[str, Any] | list[Any]


def mutate(value: bytes, dice: Random) -> bytes:
    """Return a record with one change or several; the same dice give the same record."""
    if dice.random() < 0.7:
        try:
            data = json.loads(value)
        except ValueError:  # protobuf, or hit before
            data = None
        if isinstance(data, dict | list):
            for _ in range(dice.choice((1, 1, 1, 2, 5))):
                dice.choice(CHANGES)(data, dice)
            text = json.dumps(data, ensure_ascii=dice.random() < 0.5)
            value = text.encode("utf-8", "surrogatepass")
            if dice.random() < 0.8:
                return value
    return hit_bytes(value, dice)


def hit_bytes(value: bytes, dice: Random) -> bytes:
    """Return the bytes with pieces flipped, cut out, doubled, put in, or cut off."""
    found = bytearray(value)
    for _ in range(dice.choice((1, 1, 2, 8))):
        at = dice.randrange(len(found) + 1)
        size = dice.choice((0, 1, 2, 8, 64))
        way = dice.randrange(5)
        if way == 0 and found:
            found[at - 1] ^= 1 << dice.randrange(8)
        elif way == 1:
            del found[at : at + size]
        elif way == 2:
            found[at:at] = found[at : at + size]
        elif way == 3:
            found[at : at + dice.choice((0, 1))] = dice.choice(BYTES)
        elif dice.random() < 0.2:
            del found[at:]
    return bytes(found)


def pick(data: Holder, dice: Random) -> tuple[Holder, Any] | None:
    """Return an object or a list somewhere inside, and one of its keys or places; None in an empty one."""
    holder = data
    while True:
        places: list[Any] = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not places:
            return None
        place = dice.choice(places)
        below = holder[place]
        if not isinstance(below, dict | list) or not below or dice.random() < 0.25:
            return holder, place
        holder = below


def _replace(data: Holder, dice: Random) -> None:
    if found := pick(data, dice):
        found[0][found[1]] = deepcopy(dice.choice(VALUES))  # it may be changed where it stands now


def _remove(data: Holder, dice: Random) -> None:
    if found := pick(data, dice):
        del found[0][found[1]]


def _rename(data: Holder, dice: Random) -> None:
    found = pick(data, dice)
    if found and isinstance(found[0], dict):
        found[0][dice.choice(NAMES)] = found[0].pop(found[1])


def _double(data: Holder, dice: Random) -> None:
    found = pick(data, dice)
    if found and isinstance(found[0], list):
        again = found[0][found[1]]
        found[0].extend(deepcopy(again) for _ in range(dice.choice((1, 2, 20))))


def _wrap(data: Holder, dice: Random) -> None:
    if found := pick(data, dice):
        inner = found[0][found[1]]
        wrapped = ([inner], {"value": inner}, {"content": inner}, json.dumps(inner))
        found[0][found[1]] = dice.choice(wrapped)


def _move(data: Holder, dice: Random) -> None:
    one, other = pick(data, dice), pick(data, dice)
    if one and other and not isinstance(one[0][one[1]], dict | list):
        other[0][other[1]] = one[0][one[1]]


def _nest(data: Holder, dice: Random) -> None:
    if found := pick(data, dice):
        deep: Any = None
        for _ in range(dice.choice((10, 150, 250))):
            deep = [deep] if dice.random() < 0.5 else {"content": deep}
        found[0][found[1]] = deep


CHANGES: tuple[Callable[[Holder, Random], None], ...] = (
    _replace,
    _replace,
    _replace,
    _remove,
    _rename,
    _double,
    _wrap,
    _move,
    _nest,
)
