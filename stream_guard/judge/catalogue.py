"""The tools of a session as its requests declare them, for rules that stop: what executors may make of arguments.

Only the schemas of tools that such rules ask about are kept. They are not stored: every request declares them
again, and until one does, nothing is known of the tool.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from stream_guard.judge.arguments import (
    FORMATS,
    Type,
    as_flag,
    as_float,
    as_integer,
    as_number,
    cut_deep,
    taken_as,
)
from stream_guard.judge.equality import json_equal
from stream_guard.judge.model import Json, ToolCall, Turn

Executor: TypeAlias = Literal["mcp", "pydantic", "unknown"]
"""Who hands arguments over. ``unknown``: perhaps nobody changes them, perhaps one of the others does."""

_DEEP: Final = 60  # levels of a value, and of references, that are looked into
_MOST_WAYS: Final = 16  # in which one value can be taken; what can be taken in more is doubtful
_MOST_FITS: Final = 20_000  # schemas that are looked at in one call: unions multiply them
_UNIONS: Final = ("anyOf", "oneOf")
_EXACT: Final[dict[str, type]] = {"string": str, "integer": int, "boolean": bool, "number": float}
_TAKEN: Final[tuple[Type, ...]] = ("number", "flag", "null")
# Said of a value, and nothing of its type.
_SILENT: Final = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$defs")
)


class Handed(NamedTuple):
    """What a tool gets."""

    args: Json  # as far as it is certain; the rest as it was sent
    others: tuple[Json, ...] = ()  # other arguments that it may get instead


class _UnfitError(ValueError):
    """A value does not fit a schema: the executor refuses it, or the schema is not the one that it has."""


class ToolSchema:
    """The JSON Schema of a tool's arguments, looked through once."""

    __slots__ = ("_exact", "_has_defaults", "_properties", "schema")

    def __init__(self, schema: dict[str, Json]) -> None:
        self.schema = schema
        fitting = _Fitting(schema, "unknown")
        properties = fitting.resolve(schema).get("properties")
        self._properties: dict[str, Json] | None = properties if isinstance(properties, dict) else None
        self._exact = {name: _exact_types(fitting.resolve(node)) for name, node in (self._properties or {}).items()}
        self._has_defaults = _says_default(schema)

    def hand_over(self, args: Json, executor: Executor) -> Handed | None:
        """Return the arguments as the tool gets them; None where the schema does not name them: nothing is known.

        What came in stays as it is.
        """
        properties = self._properties
        if properties is None or not isinstance(args, dict):
            return None
        fitting = _Fitting(self.schema, executor)
        taken: dict[str, Json] = {}
        doubts: dict[str, list[Json]] = {}
        for name, value in args.items():
            if type(value) in self._exact.get(name, ()):  # as most values are: every executor leaves it as it is
                taken[name] = value
                continue
            inner = properties.get(name)
            fits = fitting.fit_argument(value, inner) if isinstance(inner, dict) else []
            if len(fits) == 1:
                taken[name] = value if json_equal(fits[0], value) else fits[0]
            else:
                taken[name], doubts[name] = value, fits
        others = _others(taken, doubts, fitting) if doubts or self._has_defaults else []
        return Handed(taken, tuple(others))


def hand_over(args: Json, schema: Json, executor: Executor) -> Handed | None:
    """Return the arguments as a tool with this schema gets them; None where nothing is known of it."""
    return ToolSchema(schema).hand_over(args, executor) if isinstance(schema, dict) else None


def _exact_types(said: dict[str, Json]) -> tuple[type, ...]:
    """Return the types of values that a schema takes as they are, as far as it says one type, or one and null."""
    members = _members(said)
    if members is None:
        kind = _EXACT.get(said["type"]) if isinstance(said.get("type"), str) else None
        return () if kind is None or "contentMediaType" in said or said.get("format") in FORMATS else (kind,)
    named = [member for member in members if member != {"type": "null"}]
    if len(named) != 1 or len(members) > 2 or not isinstance(named[0], dict) or "$ref" in named[0]:
        return ()
    inner = _exact_types(named[0])
    return (*inner, type(None)) if inner and inner != (str,) else ()  # a server may read the text "null"


def _says_default(schema: Json) -> bool:
    """Whether a default stands anywhere in a schema; True of one that is too large to tell."""
    waiting = [schema]
    for node in waiting:  # grows while it is walked
        if isinstance(node, dict):
            if "default" in node or len(waiting) > _MOST_FITS:
                return True
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return False


def _others(args: dict[str, Json], doubts: dict[str, list[Json]], fitting: _Fitting) -> list[Json]:
    """Return the other arguments that the tool may get: with defaults, and with what is not certain taken otherwise."""
    with_defaults = fitting.add_defaults(args, fitting.schema)
    if not doubts:
        return [] if with_defaults is args else [with_defaults]
    found: list[Json] = [args]
    for place in range(max(map(len, doubts.values()), default=0)):
        fitted = {name: fits[min(place, len(fits) - 1)] for name, fits in doubts.items() if fits}
        found.append({**args, **fitted})
    found += [{**args, **{name: taken_as(args[name], wanted) for name in doubts}} for wanted in _TAKEN]
    found += [fitting.add_defaults(one, fitting.schema) for one in found]
    different: list[Json] = []
    for one in found[1:]:
        if not any(json_equal(one, other) for other in (args, *different)):
            different.append(one)
    return different


class _Fitting:
    """Fits the values of one call to a schema."""

    def __init__(self, schema: dict[str, Json], executor: Executor) -> None:
        self.schema = schema
        self._executor = executor
        self._left = _MOST_FITS
        self._doubtful = False  # the argument that is fitted may be another value for the tool

    def resolve(self, node: Json, _level: int = 0) -> dict[str, Json]:
        """Return a schema without references and with its parts in one; empty where it cannot be told."""
        self._left -= 1
        if not isinstance(node, dict) or _level > _DEEP or self._left < 0:
            return {}
        found = {key: value for key, value in node.items() if key not in ("$ref", "allOf")}
        reference, parts = node.get("$ref"), node.get("allOf")
        if isinstance(reference, str):
            found = {**self.resolve(self._at(reference), _level + 1), **found}
        for part in parts if isinstance(parts, list) else ():
            inner = self.resolve(part, _level + 1)
            properties = {**inner.get("properties", {}), **found.get("properties", {})}
            found = {**inner, **found, **({"properties": properties} if properties else {})}
        return found

    def _at(self, reference: str) -> Json:
        """Return what a reference into the schema itself leads to; nothing where it leads elsewhere."""
        node: Json = self.schema
        if not reference.startswith("#"):
            return None
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            node = node.get(name) if isinstance(node, dict) else None
        return node

    def fit_argument(self, value: Json, node: Json) -> list[Json]:
        """Return the values that the tool may get for an argument: one where that is certain, none where none fits."""
        self._doubtful = False
        found: list[Json] = []
        for one in [value, *self._parsed(value, node)]:
            with suppress(_UnfitError):
                _add(found, self._fit(one, node, 0))
        if self._executor == "unknown" and found and not json_equal(found[0], value):
            found.append(value)
        return [*found, value] if self._doubtful and len(found) == 1 else found

    def _parsed(self, value: Json, node: Json) -> list[Json]:
        """Return what an MCP server makes of a text before it looks at types, if it makes anything of it."""
        if self._executor == "pydantic" or type(value) is not str or self._is_text(node):
            return []
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return []
        if isinstance(parsed, str | int | float):
            return []
        return [cut_deep(parsed) if isinstance(parsed, dict | list) else parsed]

    def _is_text(self, node: Json) -> bool:
        said = self.resolve(node)
        return said.get("type") == "string" and "format" not in said and "enum" not in said and "const" not in said

    def _fit(self, value: Json, node: Json, level: int) -> list[Json]:
        """Return what a value can become, as it is first where it can stay so; each part of it comes in each way."""
        if level > _DEEP or self._left < 0:
            raise _UnfitError
        said = self.resolve(node)
        members = _members(said)
        if members is not None:
            return self._fit_one_of(value, members, level)
        match said.get("type"):
            case None:
                return self._fit_untyped(value, said, level)
            case "string":
                return self._fit_text(value, said, level)
            case "array" if isinstance(value, list):
                return self._fit_list(value, said, level)
            case "object" if isinstance(value, dict):
                return self._fit_object(value, said, level)
            case kind:
                return _as_scalar(value, kind)

    def _fit_untyped(self, value: Json, said: dict[str, Json], level: int) -> list[Json]:
        if "properties" in said:
            return self._fit(value, {**said, "type": "object"}, level + 1)
        listed = said.get("enum", [said["const"]] if "const" in said else None)
        if isinstance(listed, list):
            if not any(json_equal(value, one) for one in listed):
                raise _UnfitError
        elif said.keys() - _SILENT or (self._executor == "unknown" and isinstance(value, str)):
            self._doubtful = True
        return [value]

    def _fit_one_of(self, value: Json, members: list[Json], level: int) -> list[Json]:
        """Return what any of the members takes the value for."""
        found: list[Json] = []
        for member in members:
            with suppress(_UnfitError):
                _add(found, self._fit(value, member, level + 1))
        if not found:
            raise _UnfitError
        return self._bounded(sorted(found, key=lambda one: not json_equal(one, value)))

    def _bounded(self, found: list[Json]) -> list[Json]:
        self._doubtful = self._doubtful or len(found) > _MOST_WAYS
        return found[:_MOST_WAYS]

    def _fit_text(self, value: Json, said: dict[str, Json], level: int) -> list[Json]:
        if said.get("format") in FORMATS and not isinstance(value, dict | list):
            return _as_format(value, said["format"])
        if not isinstance(value, str):
            raise _UnfitError
        if said.get("contentMediaType") != "application/json":
            return [value]
        try:
            return self._fit(cut_deep(json.loads(value)), said.get("contentSchema", {}), level + 1)
        except (ValueError, RecursionError):
            raise _UnfitError from None

    def _fit_list(self, value: list[Json], said: dict[str, Json], level: int) -> list[Json]:
        first, rest = said.get("prefixItems"), said.get("items", {})
        nodes = first if isinstance(first, list) else []
        ways = [
            self._fit(item, nodes[place] if place < len(nodes) else rest, level + 1) for place, item in enumerate(value)
        ]
        return self._bounded([list(parts) for parts in _in_step(ways)])

    def _fit_object(self, value: dict[str, Json], said: dict[str, Json], level: int) -> list[Json]:
        properties, others = said.get("properties", {}), said.get("additionalProperties", {})
        known = properties if isinstance(properties, dict) else {}
        by_pattern = said.get("patternProperties")
        if isinstance(by_pattern, dict) and by_pattern:  # which of them a name fits is not looked at
            others = {"anyOf": [*by_pattern.values(), others]}
        ways = [self._fit(item, known.get(name, others), level + 1) for name, item in value.items()]
        return self._bounded([dict(zip(value, parts, strict=True)) for parts in _in_step(ways)])

    def add_defaults(self, value: Json, node: Json, level: int = 0) -> Json:
        """Return the value with the defaults of what is left out; itself where there are none."""
        if level > _DEEP or not isinstance(value, dict):
            return value
        said = self.resolve(node)
        properties = said.get("properties")
        found = value
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            if name in value:
                new = self.add_defaults(value[name], inner, level + 1)
                found = found if new is value[name] else {**found, name: new}
            elif "default" in (resolved := self.resolve(inner)):
                found = {**found, name: resolved["default"]}
        return found


def _add(found: list[Json], more: list[Json]) -> None:
    """Add what is not there yet."""
    for one in more:
        if not any(json_equal(one, other) for other in found):
            found.append(one)


def _in_step(ways: list[list[Json]]) -> list[tuple[Json, ...]]:
    """Return as few rows as have each way of each part once: all their products would be too many."""
    rows = max(map(len, ways), default=1)
    return [tuple(way[min(row, len(way) - 1)] for way in ways) for row in range(rows)]


def _as_scalar(value: Json, kind: Json) -> list[Json]:
    fit = _SCALARS.get(kind) if isinstance(kind, str) else None
    if fit is None:
        raise _UnfitError
    found: list[Json] = []
    for read in (as_number, fit) if kind == "number" else (fit,):  # a decimal has every digit, a float has not
        with suppress(ValueError):
            _add(found, [read(value)])
    if not found:
        raise _UnfitError
    return found


def _as_format(value: Json, form: Json) -> list[Json]:
    """Return what was written, and the text that the tool's object has, of a date or an id."""
    found: list[Json] = [value] if isinstance(value, str) else []
    with suppress(ValueError):
        _add(found, [FORMATS[form](value)])
    if not found:
        raise _UnfitError
    return found


def _members(said: dict[str, Json]) -> list[Json] | None:
    """Return the schemas of a union, one of which a value has to fit; None where there is no union."""
    for union in _UNIONS:
        members = said.get(union)
        if isinstance(members, list):
            return members
    types = said.get("type")
    return [{**said, "type": one} for one in types] if isinstance(types, list) else None


def _as_null(value: Json) -> Json:
    if value is not None:
        raise ValueError
    return value


_SCALARS: Final[dict[str, Callable[[Json], Json]]] = {
    "integer": as_integer,
    "number": as_float,
    "boolean": as_flag,
    "null": _as_null,
}


Catalogue: TypeAlias = dict[str, ToolSchema | None]
"""Schemas of arguments by tool; None for a tool that was declared in two ways."""

_MOST_TOOLS: Final = 64
_MOST_BYTES: Final = 16_384  # of one schema
_SCHEMA_NAMES: Final = ("parameters", "input_schema", "inputSchema")


def learn(turn: Turn, known: Catalogue | None, is_asked_about: Callable[[str], bool]) -> Catalogue | None:
    """Return the catalogue of a session after a turn; the one before it stays as it is."""
    tools = turn.request.get("tools") if turn.request is not None else None
    if type(tools) is not list:
        return known
    for name, schema in _declared(tools):
        if not is_asked_about(name):
            continue
        if known is not None and name in known:
            before = known[name]
            if before is not None and before.schema != schema:
                known = {**known, name: None}
        elif known is None or len(known) < _MOST_TOOLS:
            known = {**(known or {}), name: ToolSchema(schema) if _is_small(schema) else None}
    return known


def with_handed(call: ToolCall, known: Catalogue) -> ToolCall:
    """Return a call with the other arguments that its tool may get, where the catalogue knows the tool."""
    schema = known.get(call.tool)
    try:
        handed = schema.hand_over(call.args, "unknown") if schema is not None else None
    except RecursionError:  # of callers in this process: arguments deeper than any that were read
        return call
    return call if handed is None else replace(call, handed=handed.others)


def _declared(tools: list[Json]) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield names and schemas, in the shapes of the common APIs."""
    for tool in tools:
        said = tool.get("function", tool) if type(tool) is dict else None
        name = said.get("name") if type(said) is dict else None
        if type(name) is str and type(said) is dict:
            schema = next((said[key] for key in _SCHEMA_NAMES if type(said.get(key)) is dict), None)
            if schema is not None:
                yield name, schema


def _is_small(schema: Json) -> bool:
    try:
        return len(msgspec.msgpack.encode(schema)) <= _MOST_BYTES
    except (OverflowError, ValueError, TypeError, RecursionError):
        return False
