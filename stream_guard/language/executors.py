"""What common executors make of a value before the tool gets it: numbers, flags and JSON that stand in texts.

An executor validates the arguments that a model wrote, and hands the tool what fits its types. Pydantic in its lax
mode makes numbers and flags of texts; an MCP server also reads a text as JSON. Where nobody knows the tool's types,
each of these values is one that the tool may get.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Final, Literal, TypeAlias

from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema, to_jsonable_python

from stream_guard.language.arguments import MAX_NESTING
from stream_guard.model import Json

Type: TypeAlias = Literal["number", "flag", "null", "text"]
"""What a value may be taken as: ``text`` leaves it as it is. JSON in a text is read whatever is asked for."""

_INTEGER: Final = SchemaValidator(core_schema.int_schema())
_FLOAT: Final = SchemaValidator(core_schema.float_schema())
_FLAG: Final = SchemaValidator(core_schema.bool_schema())
_BRACKETS: Final = ("{", "[")
_BEFORE_JSON: Final = frozenset("{[ \t\n\r")  # what may stand before JSON is what JSON calls whitespace
_STARTS: Final = frozenset("+-.0123456789iInN")  # of texts that may be numbers, infinities and NaN
LONGEST_WORD: Final = 40  # characters of a text that is looked at as a flag or a null


def as_integer(value: Json) -> Json:
    """Return the integer that executors make of a value; ValueError where they make none."""
    return _INTEGER.validate_python(value)


def as_number(value: Json) -> Json:
    """Return the number that executors make of a value, an integer where possible; ValueError where there is none."""
    try:
        return _INTEGER.validate_python(value)
    except ValidationError:
        return as_float(value)


def as_float(value: Json) -> Json:
    """Return the float that executors make of a value; ValueError where they make none."""
    try:
        return _FLOAT.validate_python(value)
    except ValidationError:
        if type(value) is not str:
            raise
    return float(value)  # digits of other scripts, which Python's own types take, decimals too


def as_flag(value: Json) -> Json:
    """Return the flag that executors make of a value, such as ``yes`` or 1; ValueError where they make none."""
    return _FLAG.validate_python(value.strip() if type(value) is str else value)


def _written(schema: CoreSchema) -> Callable[[Json], Json]:
    """Return what makes of a value the object of a type, and of that the text that says it."""
    validate = SchemaValidator(schema).validate_python
    return lambda value: to_jsonable_python(validate(value))


FORMATS: Final[dict[Json, Callable[[Json], Json]]] = {
    "date": _written(core_schema.date_schema()),
    "date-time": _written(core_schema.datetime_schema()),
    "time": _written(core_schema.time_schema()),
    "duration": _written(core_schema.timedelta_schema()),
    "uuid": _written(core_schema.uuid_schema()),
    "uri": _written(core_schema.url_schema()),
    "ipv4": lambda value: str(ip_address(value)),
    "ipv6": lambda value: str(ip_address(value)),
}
"""Formats of a JSON Schema whose values executors make objects of; ValueError where they make none."""


def may_hold_json(text: str) -> bool:
    """Whether a text begins as an object or a list."""
    first = text[:1]
    return first in _BRACKETS or (first in _BEFORE_JSON and text.lstrip()[:1] in _BRACKETS)


def holds_json(value: Json) -> bool:
    """Whether an object or a list stands as JSON in a text somewhere in a value."""
    waiting = [value]
    for item in waiting:  # grows while it is walked
        if type(item) is str:
            if item[:1] in _BEFORE_JSON and json_in(item) is not None:
                return True
        elif type(item) is dict:
            waiting += item.values()
        elif type(item) is list:
            waiting += item
    return False


def may_be_number(text: str) -> bool:
    """Whether a text begins as a number does, or as one in another script may."""
    first = text[:1]
    return first in _STARTS or first.isspace() or not text.isascii()


def json_in(text: str) -> Json:
    """Return the object or the list that stands in a text as JSON; None where there is none.

    What is nested deeper than rules look is left out: an executor reads the rest all the same.
    """
    if not may_hold_json(text):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cut_deep(value) if isinstance(value, dict | list) else None


def cut_deep(value: Json) -> Json:
    """Return a value that nobody else holds; objects and lists in it that are nested too deep are emptied."""
    layer = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_NESTING - 1):
        layer = [inner for item in layer for inner in _inside(item) if isinstance(inner, dict | list)]
        if not layer:
            return value
    for item in layer:
        item.clear()
    return value


def _inside(item: Json) -> Iterator[Json]:
    yield from item.values() if isinstance(item, dict) else item


def taken_as(value: Json, wanted: Type) -> Json:
    """Return the value with everything in it taken as the wanted type where an executor may; itself if nothing is.

    The value that came in stays as it is.
    """
    if type(value) is str:
        return _text_as(value, wanted)
    if type(value) is dict:
        taken = {key: taken_as(item, wanted) for key, item in value.items()}
        return taken if any(taken[key] is not item for key, item in value.items()) else value
    if type(value) is list:
        items = [taken_as(item, wanted) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    # Not the other way: to a rule a flag is no number, and as one it is next to nothing.
    return value == 1 if wanted == "flag" and type(value) is not bool and value in (0, 1) else value


def _text_as(text: str, wanted: Type) -> Json:
    inner = json_in(text)
    if inner is not None:
        return taken_as(inner, wanted)
    if wanted == "number" and may_be_number(text):
        try:
            return as_number(text)
        except ValueError:
            return text
    if wanted == "flag" and len(text) <= LONGEST_WORD:
        try:
            return as_flag(text)
        except ValueError:
            return text
    return None if wanted == "null" and text[:LONGEST_WORD].strip() == "null" else text
