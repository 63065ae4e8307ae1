"""Find every mistake in a condition, and gates that can never open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from stream_guard.judge.conditions import GROUPS, LEAF_KEYS, OPERATORS, Condition, ConditionError, certain_leaves
from stream_guard.judge.equality import json_equal
from stream_guard.judge.model import Json
from stream_guard.judge.paths import Path
from stream_guard.policy.belonging import advice_for_condition
from stream_guard.policy.codes import Code
from stream_guard.policy.hints import operator_meant, text_advice, with_path_advice
from stream_guard.policy.message_parts import did_you_mean, show
from stream_guard.policy.paths import ALL_EVENTS, Events, dead_end, events_with

Steps: TypeAlias = tuple[str | int, ...]


class Flaw(NamedTuple):
    """A mistake inside a value, with the path to it from that value."""

    at: Steps
    message: str
    code: Code
    on_key: bool = False
    word: str = ""  # the key that is missing, or that a misspelt one may have meant


def flaws(source: Json, at: Steps = ()) -> Iterator[Flaw]:
    """Yield every mistake in a condition as written."""
    if isinstance(source, list):
        for number, item in enumerate(source):
            yield from flaws(item, (*at, number))
        return
    groups = [key for key in GROUPS if key in source] if isinstance(source, dict) else []
    if not groups:
        yield from _leaf_flaws(source, at)
    elif len(source) > 1:
        yield Flaw(
            (*at, groups[0]),
            f'"{groups[0]}" stands alone; put what is beside it into a list',
            Code.CONDITION,
            on_key=True,
        )
    elif groups[0] != "not" and not isinstance(source[groups[0]], list | dict):
        yield Flaw((*at, groups[0]), f'"{groups[0]}" takes a list of conditions', Code.CONDITION)
    else:
        yield from flaws(source[groups[0]], (*at, groups[0]))


def _leaf_flaws(source: Json, at: Steps) -> Iterator[Flaw]:
    if not isinstance(source, dict):
        message = f"a condition is a mapping of path, op and value, or a list of them, not {show(source)}"
        yield Flaw(at, message + text_advice(source), Code.CONDITION)
        return
    unknown = [key for key in source if key not in LEAF_KEYS]
    for key in unknown:
        meant = advice_for_condition(key, source[key])
        advice = f"; {meant.text}" if meant is not None else did_you_mean(key, (*LEAF_KEYS, *GROUPS))
        takes = advice or "; it takes path, op and value, or all_of, any_of, not"
        yield Flaw((*at, key), f"unknown key {show(key)} in a condition{takes}", Code.UNKNOWN_KEY, on_key=True)
    known = list(_known_flaws(source, at))
    yield from known
    if not unknown and not known:
        yield from _remaining_flaws(source, at)


def _known_flaws(source: dict[str, Json], at: Steps) -> Iterator[Flaw]:
    """Yield the mistakes in the path and in the operator."""
    path, op = source.get("path"), source.get("op")
    if isinstance(path, str):
        try:
            why = dead_end(Path(path))
        except ValueError as error:
            why = str(error)
        if why:
            yield Flaw((*at, "path"), with_path_advice(why, path), Code.DEAD_PATH)
    if isinstance(op, str) and op not in OPERATORS:
        advice = operator_meant(op)
        hint = f"; write {show(advice)}" if advice else did_you_mean(op, OPERATORS)
        known = hint or f"; known: {', '.join(OPERATORS)}"
        yield Flaw((*at, "op"), f"unknown operator {show(op)}{known}", Code.CONDITION)


def _remaining_flaws(source: dict[str, Json], at: Steps) -> Iterator[Flaw]:
    """Yield missing keys, and a value that does not fit its operator."""
    try:
        Condition(source)
    except ConditionError as error:
        where = tuple(error.at.split(".")) if error.at else ()
        code = Code.REGEX if source.get("op") == "matches" and where == ("value",) else Code.CONDITION
        yield Flaw((*at, *where), str(error), code)


def never_holds(source: Json) -> str:
    """Return why a valid condition can never be true, or an empty text when it can."""
    if _constant(source) is False:
        return "it is never true: an empty any_of holds for nothing, and `not` of an empty list neither"
    return _contradiction(list(certain_leaves(source)))


def always_holds(source: Json) -> bool:
    """Whether a valid condition is true at every event."""
    return _constant(source) is True


def _constant(source: Json) -> bool | None:
    """Return True or False when the condition does not depend on the event, else None."""
    if isinstance(source, list):
        return _constant_of_all(source)
    group = next((key for key in GROUPS if key in source), None)
    if group is None:
        return None
    inner = source[group]
    if group == "not":
        value = _constant(inner)
        return None if value is None else not value
    return _constant(inner) if group == "all_of" or isinstance(inner, dict) else _constant_of_any(inner)


def _constant_of_all(items: list[Json]) -> bool | None:
    values = [_constant(item) for item in items]
    if False in values:
        return False
    return True if all(value is True for value in values) else None


def _constant_of_any(items: list[Json]) -> bool | None:
    values = [_constant(item) for item in items]
    if True in values or _has_opposites(items):
        return True
    return False if all(value is False for value in values) else None


def denies_itself(source: Json) -> bool:
    """Whether a valid condition asks for something and for its opposite at once."""
    items = source.get("all_of", []) if isinstance(source, dict) else source
    return isinstance(items, list) and _has_opposites(items)


def _has_opposites(items: list[Json]) -> bool:
    """Whether one of the conditions is the negation of another."""
    denied = [_bare(item["not"]) for item in items if isinstance(item, dict) and "not" in item]
    return any(json_equal(_bare(item), other) for other in denied for item in items)


def _bare(source: Json) -> Json:
    """Return a condition without the list or the group of one that it stands in."""
    while isinstance(source, list) and len(source) == 1:
        source = source[0]
    return source


def events_holding(source: Json) -> Events:
    """Return the events at which a valid condition can be true, by its paths alone."""
    if isinstance(source, list):
        return ALL_EVENTS.intersection(*map(events_holding, source))
    group = next((key for key in GROUPS if key in source), None)
    if group is None:
        asks_absence = source["op"] == "exists" and source.get("value") is False
        return ALL_EVENTS if asks_absence else events_with(Path(source["path"]))
    inner = source[group]
    if group == "not":
        return ALL_EVENTS
    if group == "any_of" and isinstance(inner, list):
        return frozenset().union(*map(events_holding, inner))
    return events_holding(inner)


def _contradiction(leaves: list[dict[str, Json]]) -> str:
    """Return which two leaves on one path exclude each other, or an empty text."""
    for number, leaf in enumerate(leaves[:50]):
        for other in leaves[number + 1 : 50]:
            if leaf["path"] == other["path"] and (_excludes(leaf, other) or _excludes(other, leaf)):
                first, second = (f"{each['op']} {show(each['value'])}" for each in (leaf, other))
                return f"it is never true: {show(leaf['path'])} cannot be {first} and {second} at once"
    return ""


_NO_EVENT: Final[Any] = None  # only `older_than` looks at the event


def _excludes(leaf: dict[str, Json], other: dict[str, Json]) -> bool:
    op, other_op = leaf["op"], other["op"]
    value: Json = leaf.get("value")
    other_value: Json = other.get("value")
    if other_op == "exists":
        return other_value is False and (op != "exists" or value is not False)
    if op in ("==", "in") and other_op not in ("exists", "older_than"):
        compare = OPERATORS[other_op](other_op, other_value)
        return not any(compare(item, _NO_EVENT) for item in ([value] if op == "==" else value))
    if op == "contains" and other_op == "not_contains":
        return json_equal(value, other_value)
    if op in (">", ">=") and other_op in ("<", "<="):
        strict = op == ">" or other_op == "<"
        return bool(value > other_value or (strict and value == other_value))
    return False
