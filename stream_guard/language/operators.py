"""The operators of conditions. Each refuses, at load, a value for which it can never be true."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TypeAlias

from stream_guard.language.durations import parse_duration
from stream_guard.language.equality import json_equal
from stream_guard.language.patterns import Regex
from stream_guard.model import Event, Json

Compare: TypeAlias = Callable[[Json, Event], bool]


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _contains(value: Json, expected: Json) -> bool:
    if isinstance(value, str):
        return isinstance(expected, str) and expected in value
    if isinstance(value, list):
        return any(json_equal(item, expected) for item in value) or (
            isinstance(expected, str) and any(_block_contains(item, expected) for item in value)
        )
    return False


def _block_contains(block: Json, expected: str) -> bool:
    """Content blocks: the seed's own example looks for a tool's name in ``response.content``."""
    if not isinstance(block, dict):
        return False
    text = block.get("text")
    return (isinstance(text, str) and expected in text) or block.get("name") == expected


def _texts_of(item: Json) -> list[str]:
    """Return what an item of a list says: a text itself, of a content block its text and the name of its tool."""
    found = [item.get("text"), item.get("name")] if isinstance(item, dict) else [item]
    return [text for text in found if isinstance(text, str)]


def _timestamp(value: Json) -> float | None:
    if _is_number(value):
        return float(value)
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _ordering(op: str, expected: Json) -> Compare:
    if not _is_number(expected):
        raise ValueError(f'"{op}" compares numbers; its value is {json.dumps(expected)}')
    compare: dict[str, Callable[[Json], bool]] = {
        ">": lambda value: value > expected,
        ">=": lambda value: value >= expected,
        "<": lambda value: value < expected,
        "<=": lambda value: value <= expected,
    }
    holds = compare[op]
    return lambda value, _event: _is_number(value) and holds(value)


def _membership(op: str, expected: Json) -> Compare:
    if not isinstance(expected, list):
        raise ValueError(f'"{op}" takes a list; its value is {json.dumps(expected)}')
    if op == "in":
        return lambda value, _event: any(json_equal(value, item) for item in expected)
    return lambda value, _event: not any(json_equal(value, item) for item in expected)


def _matching(op: str, expected: Json) -> Compare:
    if not isinstance(expected, str):
        raise ValueError(f'"{op}" takes a regular expression; its value is {json.dumps(expected)}')
    regex = Regex(expected)

    def matches(value: Json, _event: Event) -> bool:
        if isinstance(value, str):
            return regex.occurs_in(value)
        return isinstance(value, list) and any(regex.occurs_in(text) for item in value for text in _texts_of(item))

    return matches


def _containing(op: str, expected: Json) -> Compare:
    if op == "contains":
        return lambda value, _event: _contains(value, expected)
    return lambda value, _event: not _contains(value, expected)


def _existing(_op: str, _wanted: Json) -> Compare:
    return lambda _value, _event: True


def _ageing(_op: str, expected: Json) -> Compare:
    seconds = parse_duration(expected)

    def older(value: Json, event: Event) -> bool:
        moment = _timestamp(value)
        return moment is not None and event.time is not None and event.time - moment > seconds

    return older


def _equality(op: str, expected: Json) -> Compare:
    if op == "!=":
        return lambda value, _event: not json_equal(value, expected)
    return lambda value, _event: json_equal(value, expected)


OPERATORS: Final[dict[str, Callable[[str, Json], Compare]]] = {
    "==": _equality,
    "!=": _equality,
    ">": _ordering,
    ">=": _ordering,
    "<": _ordering,
    "<=": _ordering,
    "in": _membership,
    "not_in": _membership,
    "contains": _containing,
    "not_contains": _containing,
    "matches": _matching,
    "older_than": _ageing,
    "exists": _existing,
}
