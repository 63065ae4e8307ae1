"""What a JSON Schema costs: how often its parts are tried at one place of a text, by how deep the text is.

Parts that refer to the same part several times multiply: thirty levels of two references each are a billion tries. A
part that refers to itself twice doubles the ways to an error with every level of the text. Counts are upper bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote, urldefrag

import stream_guard as sg

BUDGET: Final = 100_000
"""Tries at one place of a text; each takes some 50 nanoseconds."""
_ERRORS: Final = 1000  # ways to the errors of a text; each takes some microseconds

_ONE: Final = ("not", "if", "then", "else", "$ref", "$dynamicRef", "$recursiveRef")
_SAME_PLACE: Final = ("allOf", "anyOf", "oneOf")
_EVERY_CHILD: Final = (
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
)
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


class SchemaCost:
    """The parts of one schema, and which parts are tried together."""

    def __init__(self, document: sg.Json) -> None:
        self._document = document
        self._named: dict[str, sg.Json] = {}
        self._note_names(document)
        self._parts: list[sg.Json] = []
        self._number: dict[int, int] = {}
        self._here: list[list[int]] = []  # tried at the same place
        self._below: list[dict[str, list[int]]] = []  # tried at a child of this name; "" at every child
        self._add(document)
        for part in self._parts:  # grows while it is walked: a loop, because recursion has a limit
            here, below = self._edges(part)
            self._here.append(here)
            self._below.append(below)

    @property
    def explodes(self) -> bool:
        """Whether a text can make the validator try parts too often.

        It remembers what it found where a part refers to itself, so such a part counts once.
        """
        order = self._in_order([[*here, *_flat(below)] for here, below in zip(self._here, self._below, strict=True)])
        costs = [1] * len(self._parts)
        for number in order:
            costs[number] = self._cost(number, costs, costs)
        return costs[0] > BUDGET

    def deepest(self, most: int) -> int:
        """Return how deep a text may be, up to ``most``, for its errors to be listed: each way to them is one try."""
        order = self._in_order(self._here)
        costs = [0] * len(self._parts)
        for depth in range(most):
            below, costs = costs, [0] * len(self._parts)
            for number in order:
                costs[number] = self._cost(number, costs, below)
            if costs[0] > _ERRORS and costs != below:
                return depth
            if costs == below:
                break
        return most

    def _cost(self, number: int, here: list[int], below: list[int]) -> int:
        descent = self._below[number]
        every = sum(below[child] for child in descent.get("", ()))
        named = max((sum(below[child] for child in found) for name, found in descent.items() if name), default=0)
        return min(1 + sum(here[other] for other in self._here[number]) + every + named, BUDGET + 1)

    def _in_order(self, needed: list[list[int]]) -> list[int]:
        """Return the parts so that what a part needs comes before it, except where it needs itself."""
        order: list[int] = []
        state = [0] * len(self._parts)
        for start in range(len(self._parts)):
            waiting = [start]
            while waiting:
                number = waiting[-1]
                if state[number] == 0:
                    state[number] = 1
                    waiting += [other for other in needed[number] if state[other] == 0]
                else:
                    waiting.pop()
                    if state[number] == 1:
                        state[number] = 2
                        order.append(number)
        return order

    def _edges(self, part: sg.Json) -> tuple[list[int], dict[str, list[int]]]:
        here: list[int] = []
        below: dict[str, list[int]] = {}
        if not isinstance(part, dict):
            return here, below
        here += [self._add(self._target(name, part[name])) for name in _ONE if name in part]
        here += [self._add(sub) for name in _SAME_PLACE for sub in _listed(part.get(name))]
        here += [self._add(sub) for name in ("dependentSchemas", "dependencies") for sub in _values(part.get(name))]
        for name in _EVERY_CHILD:
            for sub in _listed(part[name]) if name in part else ():
                below.setdefault("", []).append(self._add(sub))
        for sub in _values(part.get("patternProperties")):
            below.setdefault("", []).append(self._add(sub))
        properties = part.get("properties")
        for name, sub in properties.items() if isinstance(properties, dict) else ():
            below.setdefault(f".{name}", []).append(self._add(sub))
        for place, sub in enumerate(_listed(part.get("prefixItems"))):
            below.setdefault(str(place), []).append(self._add(sub))
        return here, below

    def _add(self, part: sg.Json) -> int:
        number = self._number.get(id(part))
        if number is None or self._parts[number] is not part:
            number = self._number[id(part)] = len(self._parts)
            self._parts.append(part)
        return number

    def _target(self, keyword: str, value: sg.Json) -> sg.Json:
        """Return the part that a reference leads to; one that leads elsewhere is not counted."""
        if keyword not in _REFERENCES or not isinstance(value, str):
            return value
        if value in self._named:
            return self._named[value]
        where, fragment = urldefrag(value)
        found: Any = self._named.get(where, self._document)
        for step in unquote(fragment).split("/")[1:] if fragment.startswith("/") else ():
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                return True
        return self._named.get(f"#{fragment}", True) if fragment and not fragment.startswith("/") else found

    def _note_names(self, document: sg.Json) -> None:
        waiting: list[sg.Json] = [document]
        for value in waiting:
            if isinstance(value, dict):
                for keyword in ("$id", "$anchor", "$dynamicAnchor"):
                    name = value.get(keyword)
                    if isinstance(name, str):
                        self._named.setdefault(name if keyword == "$id" else f"#{name}", value)
                waiting.extend(value.values())
            elif isinstance(value, list):
                waiting.extend(value)


def _flat(below: dict[str, list[int]]) -> Iterator[int]:
    for found in below.values():
        yield from found


def _listed(value: sg.Json) -> Iterator[sg.Json]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield value


def _values(value: sg.Json) -> Iterator[sg.Json]:
    yield from (sub for sub in (value.values() if isinstance(value, dict) else ()) if isinstance(sub, dict))
