"""Tools of any types, and what MCP, the OpenAI Agents SDK and LangChain really hand to them."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from math import isfinite
from random import Random
from types import GenericAlias, UnionType
from typing import Any, Literal, TypeAlias, Union
from uuid import UUID

from hypothesis import strategies as st
from pydantic import BaseModel, Json, TypeAdapter, create_model

from stream_guard.integrations.langchain import _schema
from stream_guard.judge.arguments import Executor


class Level(IntEnum):
    """An enumeration of numbers."""

    LOW = 1
    HIGH = 2


class Colour(Enum):
    """An enumeration of texts."""

    RED = "red"
    ONE = "1"


_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
NAMES = ("a", "b", "amount")
SCALARS: list[Any] = [
    *(int, float, bool, str, Decimal, Any, Level, Colour, Literal["x", "1"], Literal[1, 2], Json),
    *(UUID, date, datetime, timedelta),
]


def _model(fields: dict[str, Any]) -> Any:
    made: Any = create_model  # with fields that only the run knows
    return made("Inner", **{name: (kind, ...) for name, kind in fields.items()})


def _wrapped(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(lambda one: one | None),
        st.tuples(inner, inner).map(lambda two: functools.reduce(operator.or_, two)),
        inner.map(lambda one: GenericAlias(list, (one,))),
        inner.map(lambda one: GenericAlias(dict, (str, one))),
        st.tuples(inner, inner).map(lambda two: GenericAlias(tuple, two)),
        st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3).map(_model),
    )


_NESTED: st.SearchStrategy[Any] = st.recursive(st.sampled_from(SCALARS), _wrapped, max_leaves=4)
TYPES: st.SearchStrategy[Any] = st.booleans().flatmap(lambda nested: _NESTED if nested else st.sampled_from(SCALARS))
"""Types of arguments, models in models and unions included, and as many that hold nothing."""

SPELLINGS = (
    *("1", "0", "2", " 7 ", "+7", "-7", "1e3", "1_000", "7.0", "7.5", "\u0667", "inf", "nan", "0012", "0x10", "1,000"),
    *("9007199254740993", "true", "True", "yes", "on", "t", "Y", "false", "no", "OFF", "n", "null", "None", "Infinity"),
    *("red", "x", "", "note", '"7"', "2026-01-02", "\uff17", "1E2", "-0", "7.", "1e400", '"true"', "\n1"),
)
_NUMBERS: list[Any] = [0, 1, 2, 7, -7, "0", "1", "2", " 7 ", "+7", "-7", "1_000", "7.0", "0012", "9007199254740993"]
_WORDS: list[Any] = ["true", "True", "yes", "on", "t", "Y", "1", "false", "no", "OFF", "n", "0", 0, 1, 1.0, True, False]
_IDS: list[Any] = [f"{{{_ID}}}", f"urn:uuid:{_ID}", _ID.upper(), _ID.replace("-", ""), _ID]
_OF_TYPE: list[tuple[Any, list[Any]]] = [
    (int, [*_NUMBERS, 10**17 + 1, 2.0, True]),
    (float, [*_NUMBERS, "1e3", "7.5", ".5", 2.5, 10**17 + 1, True]),
    (Decimal, [*_NUMBERS, "1e3", "7.5", "\u0667", 2.5, 10**17 + 1]),
    (bool, _WORDS),
    (Level, [1, 2, "1", "2", 2.0]),
    (Colour, ["red", "1"]),
    (Literal["x", "1"], ["x", "1"]),
    (Literal[1, 2], [1, 2]),
    (Json, ['{"a": "1"}', '["yes", 7]', "7", "true", '"x"']),
    (UUID, _IDS),
    (date, ["2026-01-02", "2026-01-02T00:00:00", "1767312000", 1767312000, 0]),
    (datetime, ["2026-01-02T03:04:05Z", "2026-01-02 03:04:05+00:00", "2026-01-02", "1767323045", 1767323045, 0.5]),
    (timedelta, ["PT60S", "P0DT1M", "00:01:00", 60, "60"]),
]


def _leaf(random: Random) -> Any:
    """Return a value that has nothing in it."""
    plain = [random.choice(SPELLINGS), random.randint(-3, 3), random.random() < 0.5, None, random.uniform(-9, 9)]
    return random.choice([*plain, random.choice(SPELLINGS), random.randint(10**17, 10**18)])


def _any_value(random: Random, level: int = 0) -> Any:
    """Return a value that a model may write, JSON in texts included."""
    if level > 2 or random.random() < 0.5:
        return _leaf(random)
    inner = [_any_value(random, level + 1) for _ in range(random.randint(0, 3))]
    held: Any = inner if random.random() < 0.5 else dict(zip(NAMES, inner, strict=False))
    return random.choice([held, json.dumps(held), f" {json.dumps(held)}\n"])


def value_for(kind: Any, random: Random) -> Any:
    """Return a value that a model may write for a type: mostly of its shape, with leaves of any spelling."""
    roll = random.random()
    if roll < 0.05:
        return _any_value(random)
    shaped = _shaped(kind, random)
    return json.dumps(shaped) if roll < 0.3 and isinstance(shaped, dict | list) else shaped


def _shaped(kind: Any, random: Random) -> Any:
    origin: Any = getattr(kind, "__origin__", None)
    inner: tuple[Any, ...] = getattr(kind, "__args__", ())
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: value_for(field.annotation, random) for name, field in kind.model_fields.items()}
    if origin is list:
        return [value_for(inner[0], random) for _ in range(random.randint(0, 3))]
    if origin is dict:
        return {name: value_for(inner[1], random) for name in random.sample(NAMES, random.randint(0, 2))}
    if origin is tuple:
        return [value_for(one, random) for one in inner]
    if origin is Union or isinstance(kind, UnionType):
        return value_for(random.choice([one for one in inner if one is not type(None)]), random)
    own = next((values for one, values in _OF_TYPE if one is kind or one == kind), None)
    return _leaf(random) if own is None or random.random() < 0.1 else random.choice(own)


def function(kinds: dict[str, Any], defaults: dict[str, Any], got: list[dict[str, Any]]) -> Callable[..., str]:
    """Return a tool with these parameters; what it gets is added to ``got``."""
    needed = [name for name in kinds if name not in defaults]
    given = ", ".join([*needed, *(f"{name}=_defaults[{name!r}]" for name in defaults)])
    passed = ", ".join(f"{name!r}: {name}" for name in kinds)
    space: dict[str, Any] = {"_defaults": defaults, "_got": got}
    exec(f"def tool({given}):\n    'A tool.'\n    _got.append({{{passed}}})\n    return 'done'\n", space)
    made: Callable[..., str] = space["tool"]
    made.__annotations__ = {**kinds, "return": str}
    return made


_WRITTEN: TypeAdapter[Any] = TypeAdapter(Any)


def plain(value: Any) -> Any:
    """Return what a tool got as JSON."""
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Decimal):
        is_whole = isfinite(float(value)) and value == int(value)  # one that no float holds is an infinity to a rule
        return int(value) if is_whole else float(value)
    if isinstance(value, UUID | date | timedelta):
        return _WRITTEN.dump_python(value, mode="json")
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


class Refused(Exception):  # noqa: N818  # what became of a call, not what went wrong
    """The executor did not take the arguments."""


Hand: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns what a tool gets of arguments; raises Refused where the executor does not take them."""

Made: TypeAlias = tuple[Any, Executor, Hand]
"""The schema of a tool, who hands over, and how."""


def by_mcp(kinds: dict[str, Any], defaults: dict[str, Any]) -> Made:
    """Make a tool of an MCP server."""
    from mcp.server.mcpserver.tools.base import Tool

    tool = Tool.from_function(function(kinds, defaults, []), name="tool")

    def hand(args: dict[str, Any]) -> dict[str, Any]:
        try:
            return tool.fn_metadata.validate_arguments(args)
        except ValueError as error:
            raise Refused from error

    return tool.parameters, "mcp", hand


def by_openai(kinds: dict[str, Any], defaults: dict[str, Any], *, strict: bool = False) -> Made:
    """Make a function tool of the OpenAI Agents SDK."""
    from agents.exceptions import UserError
    from agents.function_schema import function_schema

    got: list[dict[str, Any]] = []
    made = function(kinds, defaults, got)
    try:
        schema = function_schema(made, strict_json_schema=strict)
    except UserError as error:  # some types have no strict schema
        raise Refused from error

    def hand(args: dict[str, Any]) -> dict[str, Any]:
        try:
            positional, named = schema.to_call_args(schema.params_pydantic_model(**json.loads(json.dumps(args))))
        except ValueError as error:
            raise Refused from error
        made(*positional, **named)
        return got.pop()

    return schema.params_json_schema, "pydantic", hand


def by_strict_openai(kinds: dict[str, Any], defaults: dict[str, Any]) -> Made:
    """Make a function tool with a strict schema."""
    return by_openai(kinds, defaults, strict=True)


def by_langchain(kinds: dict[str, Any], defaults: dict[str, Any]) -> Made:
    """Make a tool of LangChain."""
    from langchain_core.tools import StructuredTool

    got: list[dict[str, Any]] = []
    tool = StructuredTool.from_function(function(kinds, defaults, got), name="tool")

    def hand(args: dict[str, Any]) -> dict[str, Any]:
        try:
            tool.invoke(args)
        except (ValueError, TypeError) as error:
            raise Refused from error
        return got.pop()

    return _schema(tool), "pydantic", hand


FRAMEWORKS = {
    "mcp": by_mcp,
    "openai-agents": by_openai,
    "openai-agents-strict": by_strict_openai,
    "langchain": by_langchain,
}
