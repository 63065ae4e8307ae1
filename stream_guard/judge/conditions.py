"""Conditions over events: what ``when``, ``unless`` and triggers are made of, compiled once.

A leaf is ``{path, op, value}``. A leaf over the turn (request, response) or over the last user message may gate a
tool call that comes later, perhaps after a restart. So the engine tests such leaves once, at the turn or the message,
and stores the tags of those that held: ``memory`` below is that set. All other leaves are tested on the event itself.
A leaf over a field that its turn leaves out does not hold, but it might: another tag, in the same memory, says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Set
from datetime import UTC, datetime
from sys import float_info
from typing import Any, Final, TypeAlias
from zlib import crc32

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from stream_guard.judge.json_values import json_equal
from stream_guard.judge.limits import parse_duration
from stream_guard.judge.model import Event, Json
from stream_guard.judge.paths import MISSING, Find, Path
from stream_guard.judge.patterns import Regex

Compare: TypeAlias = Callable[[Json, Event], bool]


def is_number(value: Json) -> bool:
    """Whether a value is a number; true and false are none."""
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
    if is_number(value):
        # A whole number may be larger than any float.
        return float(min(max(value, -float_info.max), float_info.max))
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _ordering(op: str, expected: Json) -> Compare:
    if not is_number(expected):
        raise ValueError(f'"{op}" compares numbers; its value is {json.dumps(expected)}')
    compare: dict[str, Callable[[Json], bool]] = {
        ">": lambda value: value > expected,
        ">=": lambda value: value >= expected,
        "<": lambda value: value < expected,
        "<=": lambda value: value <= expected,
    }
    holds = compare[op]
    return lambda value, _event: is_number(value) and holds(value)


def _membership(op: str, expected: Json) -> Compare:
    if not isinstance(expected, list):
        raise ValueError(f'"{op}" takes a list; its value is {json.dumps(expected)}')
    return lambda value, _event: any(json_equal(value, item) for item in expected)


def _matching(op: str, expected: Json) -> Compare:
    if not isinstance(expected, str):
        raise ValueError(f'"{op}" takes a regular expression; its value is {json.dumps(expected)}')
    regex = Regex(expected)

    def matches(value: Json, _event: Event) -> bool:
        if isinstance(value, str):
            return regex.occurs_in(value)
        return isinstance(value, list) and any(regex.occurs_in(text) for item in value for text in _texts_of(item))

    return matches


def _containing(_op: str, expected: Json) -> Compare:
    return lambda value, _event: _contains(value, expected)


def _existing(_op: str, _wanted: Json) -> Compare:
    return lambda _value, _event: True


def _ageing(_op: str, expected: Json) -> Compare:
    seconds = parse_duration(expected)

    def older(value: Json, event: Event) -> bool:
        moment = _timestamp(value)
        return moment is not None and event.time is not None and moment < event.time - seconds

    return older


def _equality(_op: str, expected: Json) -> Compare:
    return lambda value, _event: json_equal(value, expected)


Operator: TypeAlias = Callable[[str, Json], Compare]
"""Makes the test of a value, of the operator's name and of what stands beside it; ValueError where that is wrong."""


def _denied(operator: Operator) -> Operator:
    def make(op: str, expected: Json) -> Compare:
        compare = operator(op, expected)
        return lambda value, event: not compare(value, event)

    return make


OPERATORS: Final[dict[str, Operator]] = {
    "==": _equality,
    "!=": _denied(_equality),
    ">": _ordering,
    ">=": _ordering,
    "<": _ordering,
    "<=": _ordering,
    "in": _membership,
    "not_in": _denied(_membership),
    "contains": _containing,
    "not_contains": _denied(_containing),
    "matches": _matching,
    "older_than": _ageing,
    "exists": _existing,
}


Test: TypeAlias = Callable[[Event, Set[int]], bool]
Holds: TypeAlias = Callable[[Event], bool]
Unknown: TypeAlias = Callable[["Leaf"], bool]

_UNKNOWN: Final = 1 << 32  # above every tag


def _holds(find: Find, op: str, expected: Json) -> Holds:
    if op == "exists":
        # `exists: false` asks for the absence itself: the one condition a missing path satisfies.
        return lambda event: (find(event) is MISSING) is (expected is False)
    compare = OPERATORS[op](op, expected)

    def holds(event: Event) -> bool:
        value = find(event)
        return value is not MISSING and compare(value, event)

    return holds


def _test_of_event(path: Path, op: str, expected: Json, holds: Holds) -> Test:
    """Return the test of a leaf over the event itself, with shortcuts for agents and labels."""
    if op == "==" and type(expected) is str:
        if path.text == "agent":
            return lambda event, _memory: event.agent == expected
        if path.text.startswith("labels.") and len(path.steps) == 1:
            label = path.steps[0]
            return lambda event, _memory: event.labels.get(label) == expected
    return lambda event, _memory: holds(event)


class Leaf:
    """One ``{path, op, value}``. A missing path matches only ``exists: false``."""

    __slots__ = (
        "_finder",
        "_holds",
        "_wanted",
        "lacks",
        "op",
        "path",
        "tag",
        "test",
        "unknown_tag",
        "value",
    )

    def __init__(self, path: str, op: str, value: Json) -> None:
        self.path = Path(path)
        self.op = op
        self.value = value
        canonical = json.dumps([path, op, value], sort_keys=True)
        self.tag = tag = crc32(canonical.encode())
        # The text that `==` asks for, which most leaves do; None: something else is asked.
        self._wanted: str | None = value if op == "==" and isinstance(value, str) else None
        self._finder = self.path.finder
        self._holds: Holds = _holds(self.path.find, op, value)
        # Whether it is true now: of the event, or of the turn or message it belongs to.
        self.test: Test = (
            _test_of_event(self.path, op, value, self._holds)
            if self.path.when == "event"
            else (lambda _event, memory: tag in memory)
        )
        # Whether an event leaves out the field it is about; never for a leaf that asks for just that.
        self.lacks = None if op == "exists" else self.path.lacks
        self.unknown_tag = tag + _UNKNOWN

    def is_unknown(self, event: Event, memory: Set[int]) -> bool:
        """Whether the field that it is about was left out: of the event, or of the turn or message it belongs to."""
        if self.lacks is None:
            return False
        return self.lacks(event) if self.path.when == "event" else self.unknown_tag in memory

    def holds(self, event: Event) -> bool:
        """Whether it is true of an event alone."""
        if self._wanted is None:
            return self._holds(event)
        value = self._finder.find(event)
        return isinstance(value, str) and value == self._wanted


class Condition:
    """A tree of leaves. ``test`` uses the engine's memory, ``holds`` looks at one event alone."""

    __slots__ = ("_alone", "leaves", "source", "test", "tree")

    def __init__(self, source: Json) -> None:
        self.source = source
        self.leaves: list[Leaf] = []
        self.tree = tree = _parse(source, self.leaves, "")
        self.test: Test = _compile(tree, lambda leaf: leaf.test)
        self._alone = _compile(tree, _ask_event_alone)

    def holds(self, event: Event) -> bool:
        """Whether it is true of an event alone: for triggers, which look at one turn."""
        return self._alone(event, frozenset())

    def judge(self, event: Event, memory: Set[int], unknown: Unknown) -> bool | None:
        """Return whether it is true now; None where that hangs on leaves that are unknown (Kleene's third value)."""
        return self.follows(lambda leaf: None if unknown(leaf) else leaf.test(event, memory))

    def follows(self, answer: Callable[[Leaf], bool | None]) -> bool | None:
        """Return whether it is true where its leaves have these answers; None where that hangs on unknown ones."""
        return _judge(self.tree, answer)

    def certain_leaves(self) -> Iterator[Leaf]:
        """Yield the leaves that must all be true for the whole to be true."""
        return _certain(self.tree)

    def __repr__(self) -> str:
        return f"Condition({self.source!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and json_equal(self.source, other.source)

    def __hash__(self) -> int:
        return hash(json.dumps(self.source, sort_keys=True))

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        def build(value: Json) -> Condition:
            if isinstance(value, Condition):
                return value
            try:
                return cls(value)
            except ConditionError as error:
                raise PydanticCustomError("condition", "{why}", {"why": str(error), "at": error.at}) from None

        return core_schema.no_info_plain_validator_function(
            build,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda condition: condition.source),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # The policy schema puts a reference to the definition of conditions here.
        return {"type": ["object", "array"], "format": "condition"}


class ConditionError(ValueError):
    """A condition is wrong; ``at`` leads to the place inside it (``any_of.1.op``)."""

    def __init__(self, message: str, at: str) -> None:
        super().__init__(message)
        self.at = at


GROUPS: Final = ("all_of", "any_of", "not")
LEAF_KEYS: Final = ("path", "op", "value")
Tree: TypeAlias = Leaf | tuple[str, list[Any]]
"""A condition as it is parsed: a leaf, or a group with the conditions in it; a list is an ``all_of``."""


def _parse(source: Json, leaves: list[Leaf], at: str) -> Tree:
    if isinstance(source, list):
        return "all_of", [_parse(item, leaves, _join(at, n)) for n, item in enumerate(source)]
    if not isinstance(source, dict):
        raise ConditionError("a condition is a mapping of path, op and value, or a list of them", at)
    group = next((key for key in GROUPS if key in source), None)
    if group is None:
        return _parse_leaf(source, leaves, at)
    if len(source) > 1:
        raise ConditionError(f'"{group}" stands alone; put the other keys beside it in a list', at)
    inner, place = source[group], _join(at, group)
    if group == "not" or isinstance(inner, dict):
        return group, [_parse(inner, leaves, place)]
    if not isinstance(inner, list):
        raise ConditionError(f'"{group}" takes a list of conditions', place)
    return group, [_parse(item, leaves, _join(place, n)) for n, item in enumerate(inner)]


def _parse_leaf(source: dict[str, Json], leaves: list[Leaf], at: str) -> Leaf:
    for key in source:
        if key not in LEAF_KEYS:
            raise ConditionError(
                f'unknown key "{key}" in a condition; it takes path, op and value, or all_of, any_of, not',
                _join(at, key),
            )
    for key in ("path", "op"):
        if not isinstance(source.get(key), str):
            raise ConditionError(f'a condition needs "{key}"', at)
    op = source["op"]
    if op not in OPERATORS:
        raise ConditionError(f'unknown operator "{op}"; known: {", ".join(OPERATORS)}', _join(at, "op"))
    if "value" not in source and op != "exists":
        raise ConditionError(f'"{op}" needs a "value"', at)
    try:
        leaf = Leaf(source["path"], op, source.get("value", True))
    except ValueError as error:
        wrong = "path" if str(error).startswith("path") else "value"
        raise ConditionError(str(error), _join(at, wrong)) from None
    leaves.append(leaf)
    return leaf


def _join(at: str, step: object) -> str:
    return f"{at}.{step}" if at else str(step)


def _compile(tree: Tree, ask: Callable[[Leaf], Test]) -> Test:
    if isinstance(tree, Leaf):
        return ask(tree)
    group, children = tree
    tests = tuple(_compile(child, ask) for child in children)
    if group == "not":
        inner = tests[0]
        return lambda event, memory: not inner(event, memory)
    if group == "any_of":
        return lambda event, memory: any(test(event, memory) for test in tests)
    if len(tests) == 1:
        return tests[0]

    def all_hold(event: Event, memory: Set[int]) -> bool:
        for test in tests:  # noqa: SIM110  # a loop is faster than all(), and gates run at every event
            if not test(event, memory):
                return False
        return True

    return all_hold


def _judge(tree: Tree, ask: Callable[[Leaf], bool | None]) -> bool | None:
    if isinstance(tree, Leaf):
        return ask(tree)
    group, children = tree
    answers = [_judge(child, ask) for child in children]
    if group == "not":
        return None if answers[0] is None else not answers[0]
    decisive = group == "any_of"  # one true decides any_of, one false decides all_of
    if decisive in answers:
        return decisive
    return None if None in answers else not decisive


def _certain(tree: Tree) -> Iterator[Leaf]:
    if isinstance(tree, Leaf):
        yield tree
    elif tree[0] == "all_of":
        for part in tree[1]:
            yield from _certain(part)


def _ask_event_alone(leaf: Leaf) -> Test:
    return lambda event, _memory: leaf.holds(event)
