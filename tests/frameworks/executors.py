"""Tools of any types, and what MCP, the OpenAI Agents SDK and LangChain really hand to them."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable
from decimal import Decimal
from enum import Enum, IntEnum
from types import GenericAlias, UnionType
from typing import Any, Literal, TypeAlias, Union

from hypothesis import strategies as st
from pydantic import BaseModel, Json, create_model

from stream_guard.integrations.langchain import _schema
from stream_guard.language.tool_schemas import Executor


class Level(IntEnum):
    """An enumeration of numbers."""

    LOW = 1
    HIGH = 2


class Colour(Enum):
    """An enumeration of texts."""

    RED = "red"
    ONE = "1"


NAMES = ("a", "b", "amount")
SCALARS: list[Any] = [int, float, bool, str, Decimal, Any, Level, Colour, Literal["x", "1"], Literal[1, 2], Json]


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


TYPES: st.SearchStrategy[Any] = st.recursive(st.sampled_from(SCALARS), _wrapped, max_leaves=4)
"""Types of arguments, models in models and unions included."""

SPELLINGS = (
    *(
        "1",
        "0",
        "2",
        " 7 ",
        "+7",
        "-7",
        "1e3",
        "1_000",
        "7.0",
        "7.5",
        "\u0667",
        "inf",
        "nan",
        "0012",
        "9007199254740993",
    ),
    *(
        "true",
        "True",
        "yes",
        "on",
        "t",
        "Y",
        "false",
        "no",
        "OFF",
        "n",
        "null",
        "None",
        "red",
        "x",
        "",
        "note",
        "1,000",
    ),
)
LEAVES = st.one_of(
    st.sampled_from(SPELLINGS),
    st.integers(-3, 3),
    st.booleans(),
    st.none(),
    st.floats(-9, 9),
    st.integers(10**17, 10**18),
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    held = st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3))
    return st.one_of(held, held.map(json.dumps), held.map(lambda one: f" {json.dumps(one)}\n"))


VALUES: st.SearchStrategy[Any] = st.recursive(LEAVES, _nested, max_leaves=6)
"""Values that a model may write, JSON in texts included."""


_NUMBERS: list[Any] = [0, 1, 2, 7, -7, "0", "1", "2", " 7 ", "+7", "-7", "1_000", "7.0", "0012", "9007199254740993"]
_WORDS: list[Any] = ["true", "True", "yes", "on", "t", "Y", "1", "false", "no", "OFF", "n", "0", 0, 1, 1.0, True, False]
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
]


def _leaf(kind: Any) -> st.SearchStrategy[Any]:
    """Return values that an executor takes for a type without others in it, and a few that it may refuse."""
    own = next((values for one, values in _OF_TYPE if one is kind or one == kind), None)
    return LEAVES if own is None else st.one_of(*[st.sampled_from(own)] * 6, LEAVES)


def fitting(kind: Any) -> st.SearchStrategy[Any]:
    """Return values that a model may write for a type: mostly of its shape, with leaves of any spelling."""
    origin: Any = getattr(kind, "__origin__", None)
    inner: tuple[Any, ...] = getattr(kind, "__args__", ())
    shaped: st.SearchStrategy[Any] = _leaf(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        shaped = st.fixed_dictionaries({name: fitting(field.annotation) for name, field in kind.model_fields.items()})
    elif origin is list:
        shaped = st.lists(fitting(inner[0]), max_size=3)
    elif origin is dict:
        shaped = st.dictionaries(st.sampled_from(NAMES), fitting(inner[1]), max_size=2)
    elif origin is tuple:
        shaped = st.tuples(*map(fitting, inner)).map(list)
    elif origin is Union or isinstance(kind, UnionType):
        shaped = st.one_of([fitting(one) for one in inner if one is not type(None)])
    as_text = shaped.map(lambda one: json.dumps(one) if isinstance(one, dict | list) else one)
    return st.one_of(*[shaped] * 6, *[as_text] * 3, VALUES)


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


def plain(value: Any) -> Any:
    """Return what a tool got as JSON."""
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == int(value) else float(value)
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
