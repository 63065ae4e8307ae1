"""What a rule asks about arguments, and as which arguments a call may reach its tool where nobody knows the types.

A rule asks by the paths of its gate, its key and its parameters, each with the types that it compares with, or by
looking at all arguments. Values that it does not ask about are left alone: honest text stays text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from pydantic import BaseModel

from stream_guard.judge.arguments import LONGEST_WORD, Type, holds_json, json_in, may_be_number, taken_as
from stream_guard.judge.bound import key_path
from stream_guard.judge.conditions import Condition, Leaf
from stream_guard.judge.model import Json
from stream_guard.judge.paths import Path
from stream_guard.judge.spec import RuleSpec

Steps: TypeAlias = tuple[str, ...]

MOST: Final = 64  # variants of one call for one rule; beyond, nobody can tell what the tool gets
_ARGUMENTS: Final = "tool.args"
_ANY: Final[tuple[Type, ...]] = ("number",)  # of a value that is measured or compared with others of its sort
_TEXT: Final[tuple[Type, ...]] = ("text",)
_TYPES: Final[dict[type, Type]] = {bool: "flag", int: "number", float: "number", type(None): "null"}
_ORDERS: Final = (">", ">=", "<", "<=")
_NESTED: Final = 20  # levels of parameters that are looked into


class Asked(NamedTuple):
    """A place in the arguments, and the types as which a value there may be a hit."""

    steps: Steps  # none: all arguments
    types: tuple[Type, ...]


def asked_arguments(spec: RuleSpec) -> tuple[Asked, ...]:
    """Return what the rule asks about the arguments of calls."""
    found: dict[Steps, dict[Type, None]] = {}
    for steps, types in _asked(spec):
        found.setdefault(steps, {}).update(dict.fromkeys(types))
    return tuple(Asked(steps, tuple(types)) for steps, types in found.items())


def _asked(spec: RuleSpec) -> Iterator[Asked]:
    for condition in (spec.when, spec.unless):
        if condition is not None:
            yield from _by_leaves(condition.leaves)
    yield from (_at(key_path(part), _ANY) for part in spec.key if part.startswith("args."))
    rule = spec.rule
    yield from _by_params(rule.params, 0)
    searched = [pattern.path for pattern in rule.texts() if pattern.where == "tool_args"]
    if rule.equates_arguments:
        yield Asked((), _ANY)
    elif searched and all(searched):  # it does not fire without a text there
        yield from (_at(path, _TEXT) for path in searched if path is not None)
    elif "content" in rule.needs():
        yield Asked((), _TEXT)


def _by_leaves(leaves: Iterable[Leaf]) -> Iterator[Asked]:
    for leaf in leaves:
        if leaf.path.text.startswith(_ARGUMENTS):
            yield _at(leaf.path, ("number",) if leaf.op in _ORDERS else tuple(_types_of(leaf.value)))


def _by_params(value: object, level: int) -> Iterator[Asked]:
    """Yield the paths in parameters: as paths, in conditions, and as fields that are called ``path``."""
    if isinstance(value, Condition):
        yield from _by_leaves(value.leaves)
    elif isinstance(value, Path):
        if value.text.startswith(_ARGUMENTS):
            yield _at(value, _ANY)
    elif isinstance(value, BaseModel) and level < _NESTED:
        inner = dict(value)
        path = inner.get("path")
        if isinstance(path, str):
            compared = inner.get("value", inner.get("values", ""))
            yield Asked(tuple(path.split(".")), tuple(_types_of(compared)))
        for item in inner.values():
            yield from _by_params(item, level + 1)
    elif isinstance(value, list | tuple) and level < _NESTED:
        for item in value:
            yield from _by_params(item, level + 1)


def _at(path: Path, types: Iterable[Type]) -> Asked:
    return Asked(path.steps[1:], tuple(types))


def _types_of(value: Json) -> dict[Type, None]:
    """Return the types of all values in what a rule compares with."""
    found: dict[Type, None] = {}
    waiting = [value]
    for item in waiting:  # grows while it is walked
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
        else:
            found[_TYPES.get(type(item), "text")] = None
    return found


class Places:
    """All places that the rules of a plan ask about: one look tells whether any of them can be taken otherwise."""

    __slots__ = ("_places",)

    def __init__(self, asked: Iterable[Asked]) -> None:
        merged: dict[Steps, dict[Type, None]] = {}
        for steps, types in asked:
            merged.setdefault(steps, {}).update(dict.fromkeys(types))
        self._places = [
            (steps, "number" in types, "flag" in types, "flag" in types or "null" in types, Asked(steps, tuple(types)))
            for steps, types in merged.items()
        ]

    def may_vary(self, args: dict[str, Json]) -> bool:
        """Whether the tool may get other values than these; False is certain, and the most frequent answer."""
        for steps, number, flag, word, asked in self._places:
            value: Json = args
            for step in steps:
                if type(value) is not dict:
                    value = _item(value, step)
                    continue
                value = value.get(step)
            if value is None or value is True or value is False:
                continue
            if type(value) is int or type(value) is float:
                if flag and (value == 0 or value == 1):  # noqa: PLR1714  # quicker than a tuple
                    return True
            elif type(value) is str:
                first = value[:1]
                likely = (
                    first in "{[ \t\n\r" or (number and may_be_number(value)) or (word and len(value) <= LONGEST_WORD)
                )
                if likely and variants(args, (asked,)) != []:
                    return True
            elif (asked.types != _TEXT or holds_json(value)) and variants(args, (asked,)) != []:
                return True
        return False


def _item(value: Json, step: str) -> Json:
    """Return what is at a step of a list, or of JSON in a text; the text itself, which is looked at closer."""
    if type(value) is list and step.isascii() and step.isdigit() and int(step) < len(value):
        return value[int(step)]
    return value if type(value) is str else None


def variants(args: Json, asked: Iterable[Asked]) -> list[Json] | None:
    """Return the other arguments that an executor may make of these, as far as a rule asks; None: too many of them.

    The first is that in which every value is taken otherwise that can be.
    """
    found = [args]
    try:
        for steps, types in asked:
            found += [other for one in found for wanted in types if (other := _replaced(one, steps, wanted)) is not one]
            if len(found) > MOST:
                return None
    except RecursionError:  # of callers in this process: arguments deeper than any that were read
        return None
    return found[:0:-1]


def _replaced(value: Json, steps: Steps, wanted: Type) -> Json:
    """Return the value with what stands at the steps taken as the wanted type; itself where that changes nothing."""
    if not steps:
        return taken_as(value, wanted)
    if type(value) is str:
        inner = json_in(value)
        return value if inner is None else _replaced(inner, steps, wanted)
    step, rest = steps[0], steps[1:]
    if type(value) is dict:
        if step not in value:
            return value
        old = value[step]
        new = _replaced(old, rest, wanted)
        return value if new is old else {**value, step: new}
    if type(value) is list and step.isascii() and step.isdigit() and int(step) < len(value):
        old = value[int(step)]
        new = _replaced(old, rest, wanted)
        return value if new is old else [*value[: int(step)], new, *value[int(step) + 1 :]]
    return value
