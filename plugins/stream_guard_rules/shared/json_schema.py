"""JSON Schemas: checked when they are loaded, then applied to texts that may be hostile.

jsonschema-rs validates every text; its patterns run in linear time. Python's own regular expressions do not,
and are never applied to a text. jsonschema checks the schema itself, when it is loaded.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote, urldefrag

import jsonschema_rs
import msgspec
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

import stream_guard as sg
from stream_guard_rules.shared.evidence import cut

# What a JSON Schema costs: how often its parts are tried at one place of a text, by how deep the text is.
#
# Parts that refer to the same part several times multiply: thirty levels of two references each are a billion tries. A
# part that refers to itself twice doubles the ways to an error with every level of the text. Counts are upper bounds.

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


POLICY_FOLDER: Final = "policy_folder"
"""The key under which a policy's folder reaches the validators."""
FILE_READ: Final = "file_read"
"""The key of the callback that gets a file before it is read, so that changes of the file are noticed."""

ROOT: Final = "<root>"
MAX_DEPTH: Final = 256
_MAX_FILE_BYTES: Final = 2**20
# Above this, only the first error is asked for: collecting all of them lets a text buy seconds.
_LONG_TEXT: Final = 20_000
_WEAK: Final = frozenset(("anyOf", "oneOf"))


class SchemaError(ValueError):
    """A schema cannot be used; the text says why and what to do."""


class TextError(ValueError):
    """A text is not what the schema asks for; ``path`` leads to the wrong field."""

    def __init__(self, message: str, path: str = ROOT) -> None:
        super().__init__(message)
        self.path = path


class Schema:
    """A compiled JSON Schema. It fetches nothing: references lead to its own parts."""

    __slots__ = ("_deepest", "_validator", "document")

    def __init__(self, document: sg.Json) -> None:
        self.document = document
        _check(document)
        cost = SchemaCost(document)
        if cost.explodes:
            raise SchemaError(
                f"the JSON Schema explodes: its parts refer to each other so often that over {BUDGET} "
                "would be tried at one place of a text; refer to each part once"
            )
        self._deepest = cost.deepest(MAX_DEPTH)
        try:
            self._validator = jsonschema_rs.validator_for(
                document,
                # Formats are annotations, as they are to jsonschema when nobody asks for more.
                validate_formats=False,
                pattern_options=jsonschema_rs.RegexOptions(),
                retriever=_refuse,
            )
        except jsonschema_rs.ValidationError as error:
            raise SchemaError(_unusable(error)) from None

    def judge(self, text: str) -> None:
        """Raise TextError unless the text is JSON that fits the schema."""
        value = parse(text)
        if not self._validator.is_valid(value):
            error = self._best_error(value, text)
            if error is None:
                raise TextError("the response does not fit the schema")
            path = ".".join(map(str, error.instance_path)) or ROOT
            raise TextError(cut(error.message), cut(path))

    def _best_error(self, value: sg.Json, text: str) -> jsonschema_rs.ValidationError | None:
        """Return the most telling error; None where the ways to the errors are too many to walk."""
        if _has_levels(text, self._deepest) and _is_deep(value, self._deepest):
            return None
        if len(text) <= _LONG_TEXT:
            return best_match(self._validator.iter_errors(value))
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return error
        raise AssertionError("is_valid and validate disagree")

    def __repr__(self) -> str:
        return f"Schema({self.document!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and sg.json_equal(other.document, self.document)

    def __hash__(self) -> int:
        return hash(msgspec.json.encode(self.document, order="sorted"))

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        def build(value: sg.Json) -> Schema:
            return value if isinstance(value, Schema) else _built(cls, value)

        return core_schema.no_info_plain_validator_function(
            build,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda schema: schema.document),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": ["object", "boolean"], "description": "a JSON Schema"}


class SchemaFile(Schema):
    """A schema that stands in a file beside the policy, or in a folder below it."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        def build(name: str, info: ValidationInfo) -> Schema:
            try:
                context = info.context or {}
                document = _read(name, context.get(POLICY_FOLDER), context.get(FILE_READ))
            except SchemaError as error:
                raise PydanticCustomError("schema_path", "{why}", {"why": str(error)}) from None
            return _built(cls, document)

        return core_schema.with_info_after_validator_function(
            build,
            core_schema.str_schema(strict=True, min_length=1),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda schema: schema.document),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "minLength": 1}


def parse(text: str) -> sg.Json:
    """Return the value of a JSON text, strictly by RFC 8259, or raise TextError.

    Of a key given twice the last value counts. What the grammar allows but no double, no Unicode string
    or no stack can hold (1e999, half of a surrogate pair, endless nesting) is refused.
    """
    if not text.strip():
        raise TextError("the response has no text")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise TextError(f"the response is not JSON: {cut(str(error))}") from None
    except RecursionError:
        raise TextError(f"the response is nested deeper than {MAX_DEPTH} levels") from None
    # The validator descends in native code, where a stack that is too small ends the process.
    if _has_levels(text, MAX_DEPTH) and _is_deep(value, MAX_DEPTH):
        raise TextError(f"the response is nested deeper than {MAX_DEPTH} levels")
    return value


def _has_levels(text: str, number: int) -> bool:
    """Whether a text could be nested so deep; a quick question before a slow one."""
    return text.count("[") + text.count("{") > number


def _is_deep(value: sg.Json, deepest: int) -> bool:
    level = [value]
    for _ in range(deepest):
        level = [child for item in level for child in _children(item) if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def _children(item: dict[str, sg.Json] | list[sg.Json]) -> Iterable[sg.Json]:
    return item.values() if isinstance(item, dict) else item


def best_match(errors: Iterable[jsonschema_rs.ValidationError]) -> jsonschema_rs.ValidationError:
    """Return the most telling error, chosen as jsonschema's ``best_match`` chooses it."""
    best = max(errors, key=_relevance)
    while context := _context(best):
        deepest = heapq.nsmallest(2, context, key=_relevance)
        if len(deepest) == 2 and _relevance(deepest[0]) == _relevance(deepest[1]):
            break
        best = deepest[0]
    return best


def _relevance(error: jsonschema_rs.ValidationError) -> tuple[int, list[str | int], bool]:
    path = list(error.instance_path)
    return -len(path), path, error.kind.name not in _WEAK


def _context(error: jsonschema_rs.ValidationError) -> list[jsonschema_rs.ValidationError]:
    """Return the errors of the branches of an anyOf or oneOf."""
    branches = getattr(error.kind, "context", ())
    return [inner for branch in branches for inner in branch]


def _check(document: sg.Json) -> None:
    """Raise SchemaError unless the document is a valid schema."""
    import jsonschema  # noqa: PLC0415  # it takes a while to import

    if not isinstance(document, dict | bool):
        raise SchemaError(f"a JSON Schema is an object, or true or false; this is a {type(document).__name__}")
    validator = jsonschema.validators.validator_for(document, default=jsonschema.Draft202012Validator)
    try:
        validator.check_schema(cast("dict[str, Any]", document))
    except jsonschema.SchemaError as error:
        place = ".".join(map(str, error.absolute_path)) or ROOT
        raise SchemaError(f"not a valid JSON Schema: at {place}, {cut(error.message)}") from None
    except RecursionError:
        raise SchemaError("the JSON Schema is nested too deeply") from None


def _refuse(uri: str) -> sg.Json:
    raise LookupError(uri)


def _unusable(error: jsonschema_rs.ValidationError) -> str:
    place = ".".join(map(str, error.instance_path)) or ROOT
    if error.kind.name == "pattern" or "regex" in error.message:
        return f"at {place}, {cut(error.message)} that runs in linear time; leave out look-around and back-references"
    return (
        f"the JSON Schema cannot be used: {cut(error.message.splitlines()[0])}; "
        "nothing is fetched, so write what it refers to under $defs"
    )


def _built(cls: type[Schema], document: sg.Json) -> Schema:
    try:
        return cls(document)
    except SchemaError as error:
        raise PydanticCustomError("json_schema", "{why}", {"why": str(error)}) from None


def _read(name: str, folder: str | None, file_read: Callable[[Path], None] | None) -> sg.Json:
    """Return the document in a file that must stand inside the policy's folder."""
    if folder is None:
        raise SchemaError(
            "schema_path is relative to the policy file, and this policy has none; write the schema inline"
        )
    inside = Path(folder).resolve()
    file = (inside / name).resolve()
    if not file.is_relative_to(inside):
        raise SchemaError(f'schema_path "{name}" leads out of the folder of the policy; move the schema into it')
    if file_read is not None:
        file_read(file)
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SchemaError(f'schema_path "{name}" cannot be read: {error.strerror}') from None
    if len(data) > _MAX_FILE_BYTES:
        raise SchemaError(f'schema_path "{name}" is larger than {_MAX_FILE_BYTES} bytes')
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise SchemaError(f'schema_path "{name}" is not JSON: {error}') from None
