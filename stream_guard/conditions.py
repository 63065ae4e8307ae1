"""Conditions over events: what ``when``, ``unless`` and triggers are made of, compiled once.

A leaf is ``{path, op, value}``. Leaves over the turn (request, response) or over the last user
message must still hold an answer when the tool call they gate arrives later, perhaps after a
restart. So the engine tests them once, when the turn or the message passes, and remembers which
were true: ``memory`` below is that set of tags. All other leaves are tested on the event itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Set
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias
from zlib import crc32

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from stream_guard.durations import parse_duration
from stream_guard.model import Event, Json, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.patterns import Regex


class Missing:
    """The type of ``MISSING``: no value, which is not the same as null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()

Test: TypeAlias = Callable[[Event, Set[int]], bool]
Compare: TypeAlias = Callable[[Json, Event], bool]
When: TypeAlias = Literal["turn", "user", "event"]


def lookup(value: Json, steps: tuple[str, ...]) -> Json | Missing:
    """Return what the steps lead to, or ``MISSING``; a path that breaks half-way is missing, not an error."""
    for step in steps:
        if isinstance(value, dict):
            if step not in value:
                return MISSING
            value = value[step]
        elif isinstance(value, list):
            # Only plain digits index a list: "-1" is a missing path, not the last element.
            if not (step.isascii() and step.isdigit()) or int(step) >= len(value):
                return MISSING
            value = value[int(step)]
        else:
            return MISSING
    return value


def json_equal(one: Json, other: Json) -> bool:
    """Whether two JSON values are equal; true is not 1 and "5" is not 5, but 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(json_equal(item, other[key]) for key, item in one.items())
        )
    if isinstance(one, list):
        return (
            isinstance(other, list) and len(one) == len(other) and all(map(json_equal, one, other))
        )
    return bool(one == other)


def _model(event: Event) -> Json | Missing:
    if not isinstance(event, Turn):
        return MISSING
    requested = lookup(event.request or {}, ("model",))
    return lookup(event.response, ("model",)) if requested is MISSING else requested


def _request(event: Event) -> Json | Missing:
    return event.request if isinstance(event, Turn) and event.request is not None else MISSING


def _response(event: Event) -> Json | Missing:
    return event.response if isinstance(event, Turn) else MISSING


def _stop_reason(event: Event) -> Json | Missing:
    return lookup(event.response, ("stop_reason",)) if isinstance(event, Turn) else MISSING


def _user(event: Event) -> Json | Missing:
    return {"text": event.text} if isinstance(event, UserMessage) else MISSING


def _tool(event: Event) -> Json | Missing:
    if isinstance(event, ToolCall):
        return {"name": event.tool, "args": event.args}
    if isinstance(event, ToolResult):
        result = {"status": event.status, "output": event.output, "latency_ms": event.latency_ms}
        return {"name": event.tool, "result": result}
    return MISSING


def _session(event: Event) -> Json | Missing:
    return {"id": event.session_id, "turn": event.index, "part": event.part}


ROOTS: Final[dict[str, tuple[When, Callable[[Event], Json | Missing]]]] = {
    "request": ("turn", _request),
    "response": ("turn", _response),
    "model": ("turn", _model),
    "stop_reason": ("turn", _stop_reason),
    "user": ("user", _user),
    "tool": ("event", _tool),
    "labels": ("event", lambda event: event.labels),
    "agent": ("event", lambda event: event.agent),
    "run_id": ("event", lambda event: event.run_id),
    "session": ("event", _session),
}


class Path:
    """A dotted path from an event to a value, split and checked once."""

    __slots__ = ("_root", "steps", "text", "when")

    def __init__(self, text: str) -> None:
        root, *steps = text.split(".")
        if root not in ROOTS:
            raise ValueError(f'path "{text}" can never resolve: it must start with one of {", ".join(ROOTS)}')
        if not all(steps):
            raise ValueError(f'path "{text}" has an empty step')
        self.text = text
        self.when, self._root = ROOTS[root]
        self.steps = tuple(steps)

    def find(self, event: Event) -> Json | Missing:
        """Return the value in the event, or ``MISSING``."""
        start = self._root(event)
        return lookup(start, self.steps) if self.steps and start is not MISSING else start

    def __repr__(self) -> str:
        return f"Path({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        def build(value: str) -> Path:
            try:
                return cls(value)
            except ValueError as error:
                raise PydanticCustomError("path", "{why}", {"why": str(error)}) from None

        return core_schema.no_info_after_validator_function(
            build,
            core_schema.str_schema(strict=True),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda path: path.text),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": f"^({'|'.join(ROOTS)})(\\.|$)"}


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _contains(value: Json, wanted: Json) -> bool:
    if isinstance(value, str):
        return isinstance(wanted, str) and wanted in value
    if isinstance(value, list):
        return any(json_equal(item, wanted) for item in value) or (
            isinstance(wanted, str) and any(_block_contains(item, wanted) for item in value)
        )
    return False


def _block_contains(block: Json, wanted: str) -> bool:
    """Content blocks: the seed's own example looks for a tool's name in ``response.content``."""
    if not isinstance(block, dict):
        return False
    text = block.get("text")
    return (isinstance(text, str) and wanted in text) or block.get("name") == wanted


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


def _ordering(op: str, wanted: Json) -> Compare:
    if not _is_number(wanted):
        raise ValueError(f'"{op}" compares numbers; its value is {json.dumps(wanted)}')
    compare: dict[str, Callable[[Json], bool]] = {
        ">": lambda value: value > wanted,
        ">=": lambda value: value >= wanted,
        "<": lambda value: value < wanted,
        "<=": lambda value: value <= wanted,
    }
    holds = compare[op]
    return lambda value, _event: _is_number(value) and holds(value)


def _membership(op: str, wanted: Json) -> Compare:
    if not isinstance(wanted, list):
        raise ValueError(f'"{op}" takes a list; its value is {json.dumps(wanted)}')
    if op == "in":
        return lambda value, _event: any(json_equal(value, item) for item in wanted)
    return lambda value, _event: not any(json_equal(value, item) for item in wanted)


def _matching(op: str, wanted: Json) -> Compare:
    if not isinstance(wanted, str):
        raise ValueError(f'"{op}" takes a regular expression; its value is {json.dumps(wanted)}')
    regex = Regex(wanted)
    return lambda value, _event: isinstance(value, str) and regex.search(value) is not None


def _ageing(_op: str, wanted: Json) -> Compare:
    seconds = parse_duration(wanted)

    def older(value: Json, event: Event) -> bool:
        moment = _timestamp(value)
        return moment is not None and event.time is not None and event.time - moment > seconds

    return older


OPERATORS: Final[dict[str, Callable[[str, Json], Compare]]] = {
    "==": lambda _op, wanted: lambda value, _event: json_equal(value, wanted),
    "!=": lambda _op, wanted: lambda value, _event: not json_equal(value, wanted),
    ">": _ordering,
    ">=": _ordering,
    "<": _ordering,
    "<=": _ordering,
    "in": _membership,
    "not_in": _membership,
    "contains": lambda _op, wanted: lambda value, _event: _contains(value, wanted),
    "not_contains": lambda _op, wanted: lambda value, _event: not _contains(value, wanted),
    "matches": _matching,
    "older_than": _ageing,
    "exists": lambda _op, _wanted: lambda _value, _event: True,
}


class Leaf:
    """One ``{path, op, value}``; a missing path never matches, whatever the operator."""

    __slots__ = ("_absent", "_compare", "path", "tag")

    def __init__(self, path: str, op: str, value: Json) -> None:
        self.path = Path(path)
        self._compare = OPERATORS[op](op, value)
        # `exists: false` asks for the absence itself: the one condition a missing path satisfies.
        self._absent = op == "exists" and value is False
        canonical = json.dumps([path, op, value], sort_keys=True)
        self.tag = crc32(canonical.encode())

    def holds(self, event: Event) -> bool:
        """Whether it is true of this event, without any memory."""
        value = self.path.find(event)
        if value is MISSING:
            return self._absent
        return not self._absent and self._compare(value, event)

    def test(self, event: Event, memory: Set[int]) -> bool:
        """Whether it is true now: of the event, or of the turn or message it belongs to."""
        return self.holds(event) if self.path.when == "event" else self.tag in memory


class Condition:
    """A tree of leaves. ``test`` answers with the engine's memory, ``holds`` for one event alone."""

    __slots__ = ("_alone", "leaves", "source", "test")

    def __init__(self, source: Json) -> None:
        self.source = source
        self.leaves: list[Leaf] = []
        tree = _parse(source, self.leaves, "")
        self.test: Test = _compile(tree, lambda leaf: leaf.test)
        self._alone = _compile(tree, _ask_event_alone)

    def holds(self, event: Event) -> bool:
        """Whether it is true of this event alone (for triggers, which look at one turn)."""
        return self._alone(event, frozenset())

    def remembered(self, when: When) -> Iterator[Leaf]:
        """Yield the leaves whose answer has to be kept from the turn, or from the user's message."""
        return (leaf for leaf in self.leaves if leaf.path.when == when)

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
                raise PydanticCustomError(
                    "condition", "{why}", {"why": str(error), "at": error.at}
                ) from None

        return core_schema.no_info_plain_validator_function(
            build,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda condition: condition.source),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return CONDITION_SCHEMA


class ConditionError(ValueError):
    """A condition is wrong; ``at`` leads to the place inside it (``any_of.1.op``)."""

    def __init__(self, message: str, at: str) -> None:
        super().__init__(message)
        self.at = at


GROUPS: Final = ("all_of", "any_of", "not")
LEAF_KEYS: Final = ("path", "op", "value")
_Tree: TypeAlias = Leaf | tuple[str, list[Any]]


def _parse(source: Json, leaves: list[Leaf], at: str) -> _Tree:
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


def _compile(tree: _Tree, ask: Callable[[Leaf], Test]) -> Test:
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
    return lambda event, memory: all(test(event, memory) for test in tests)


def _ask_event_alone(leaf: Leaf) -> Test:
    return lambda event, _memory: leaf.holds(event)


_REF: Final = {"$ref": "#/$defs/condition"}
CONDITION_SCHEMA: Final[JsonSchemaValue] = {"type": ["object", "array"], "format": "condition"}
"""Where a condition stands in a schema of its own; the policy schema puts a reference to the definition there."""

CONDITION_DEFINITION: Final[JsonSchemaValue] = {
    "description": "A condition: {path, op, value}, a list of them (all must hold), or all_of, any_of, not.",
    "anyOf": [
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "pattern": f"^({'|'.join(ROOTS)})(\\.|$)"},
                "op": {"enum": list(OPERATORS)},
                "value": {},
            },
            "required": ["path", "op"],
            "additionalProperties": False,
        },
        {"type": "array", "items": _REF},
        *(
            {"type": "object", "properties": {group: _REF}, "required": [group], "additionalProperties": False}
            for group in GROUPS
        ),
    ],
}
