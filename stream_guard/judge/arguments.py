"""Tool arguments as a model writes them, and as which values they may reach the tool.

They arrive as text: JSON, sometimes JSON in JSON, sometimes broken. The reading of the executor counts. So a text is
read as Python's ``json`` reads it: the last of two equal keys wins, NaN and Infinity are numbers. Where common readers
take something else from the same text, the arguments are contested.

What a session's requests declare of its tools says what executors make of the values. Only the schemas of tools that
rules ask about are kept; until a request declares a tool, nothing is known of it.
"""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from ipaddress import ip_address
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace
from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema, to_jsonable_python

from stream_guard.judge.json_values import check_json, json_equal
from stream_guard.judge.model import Json, ToolCall, Turn

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
    for layer in islice(_layers(value), MAX_NESTING - 1, MAX_NESTING):
        for item in layer:
            item.clear()
    return value


def _layers(value: Json) -> Iterator[list[Json]]:
    """Yield the objects and lists of each level, the outermost first; a loop, for recursion has limits."""
    layer = [value]
    while layer := [item for item in layer if isinstance(item, dict | list)]:
        yield layer
        layer = [inner for item in layer for inner in (item.values() if isinstance(item, dict) else item)]


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


def payload_texts(value: Json) -> list[str]:
    """Return every string in a JSON value and every key of its objects; each is a text of its own.

    Two strings that stand beside each other say nothing together. Only a list of strings that begins with a single
    word may be a command (``["git", "push", "--force"]``): it is there as the line that a shell would be given, too.
    """
    found: list[str] = []
    waiting = [value]
    for item in waiting:  # grows while it is walked: a loop, because recursion has a limit
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict):
            for key, entry in item.items():  # a loop: for the few entries that there are, quicker than to extend
                if isinstance(key, str):  # in this process it may be anything
                    found.append(key)
                waiting.append(entry)
        elif isinstance(item, list):
            waiting.extend(item)
            if _is_command(item):
                found.append(shlex.join(item))
    return found


def _is_command(items: list[Json]) -> bool:
    first = items[0] if len(items) > 1 else None
    return isinstance(first, str) and len(first.split()) == 1 and all(isinstance(item, str) for item in items)


MAX_NESTING: Final = 200  # what the strict parser allows; rules and stores recurse no deeper

_SHOWN: Final = 40  # characters of a key in a reason
# Integers that readers with 64 bits hold.
_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1
_DIGITS_AS_ZERO: Final = bytes.maketrans(b"123456789", b"000000000")
_NINETEEN_DIGITS: Final = b"0" * 19
_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_TOO_DEEP: Final = f"nested deeper than {MAX_NESTING} levels"
_decode = msgspec.json.Decoder().decode
_pack = msgspec.msgpack.Encoder().encode


class Arguments(NamedTuple):
    """What a text of arguments says."""

    value: Json  # the text itself where it cannot be read
    unreadable: bool = False
    contested: str = ""  # why common readers differ on it; empty: they agree


UNREAD: Final = Arguments(f"{{arguments {_TOO_DEEP}", unreadable=True)
"""What is made of arguments that came as values, nested too deep: a text that begins as JSON, and is none.

Rules that look for texts in arguments know by the bracket that there was more than this text.
"""


def parse_json(value: bytes, *, strict_keys: bool = True) -> Json:
    """Return the value; ValueError when it is not JSON, is nested too deep, or gives a key twice.

    Two parsers run, because neither checks everything: one finds duplicate keys and limits the depth, the other refuses
    numbers that no double holds. Where keys may come twice, few brackets are proof enough of the depth.
    """
    if not strict_keys and value.count(b"[") + value.count(b"{") <= MAX_NESTING:
        try:
            return _decode(value)
        except ValueError:
            pass  # the other parser says better what is wrong
    check_json(value, strict_keys)
    return _decode(value)


def read_arguments(text: str) -> Arguments:
    """Return what the tool will get from a text; a text without anything in it is a call without arguments.

    Text that is not JSON, even after decoding it twice, is returned as it is: an attempt with broken arguments is
    still an attempt, and a rule may look at them.
    """
    value: Json = text
    contested = ""
    if text.isspace() or not text:
        return Arguments({})
    try:
        for _ in range(2):
            plain = _read_plain(value)
            if plain is not None:
                return Arguments(plain, contested=contested)
            value, why = _read_closely(value)
            contested = contested or why
            if not isinstance(value, str):
                return Arguments(value, contested=contested)
    except _TooDeepError as error:
        return Arguments(text, unreadable=True, contested=str(error))
    except (ValueError, RecursionError):
        pass
    return Arguments(text, unreadable=True, contested=contested)


def parse_arguments(text: str, *, strict_keys: bool = True) -> tuple[Json, bool]:
    """Return the arguments a model wrote as text, and whether they could not be read.

    Contested text is returned as it is, and judged when it is read again; unless ``strict_keys`` is off, which trusts
    the source.
    """
    value, unreadable, contested = read_arguments(text)
    return (text, True) if contested and strict_keys else (value, unreadable)


def read_call(call: ToolCall) -> ToolCall:
    """Return a call with its arguments read where they are still text. Those that are nested too deep are not read."""
    args = call.args
    if type(args) is not str and not is_deep(args):
        return call
    value, unreadable, contested = read_arguments(args) if type(args) is str else UNREAD
    return replace(call, args=value, parse_error=unreadable, contested=contested or call.contested)


def read_attempt(attempt: ToolCall) -> ToolCall:
    """Return an attempt that is asked about with its arguments: whoever asks and gives none has none to give."""
    if attempt.args is None and attempt.captured:
        return replace(attempt, args={})
    return read_call(attempt)


def looks_like_json(text: str) -> bool:
    """Whether a text begins like JSON, so that a lenient reader may take arguments from it."""
    return text.lstrip()[:1] in ("{", "[", '"')


class _TooDeepError(ValueError):
    """The text is JSON, and nested deeper than some readers go."""


def _read_plain(text: str) -> dict[str, Json] | None:
    """Return the object of a text on which no two readers can differ; None for every other text.

    Keys that look alike are not ASCII, and numbers that do not fit have many digits.
    """
    try:
        written = text.encode()
    except UnicodeEncodeError:
        return None
    beyond_ascii = b"\\u" in written or not text.isascii()
    if beyond_ascii and (b"\\ud" in written or b"\\uD" in written):  # perhaps half of a surrogate pair
        return None
    if len(written) > len(_NINETEEN_DIGITS) and _NINETEEN_DIGITS in written.translate(_DIGITS_AS_ZERO):
        return None
    try:
        value = parse_json(written)
    except ValueError:
        return None
    if type(value) is not dict or (beyond_ascii and not _has_plain_keys(value)):
        return None
    return value


def _has_plain_keys(value: dict[str, Json]) -> bool:
    """Whether all keys are ASCII, which this can only tell where nothing is nested."""
    return all(key.isascii() and type(inner) is not dict and type(inner) is not list for key, inner in value.items())


def _read_closely(text: str) -> tuple[Json, str]:
    """Return the value of a JSON text, and why common readers differ on it; ValueError when it is not JSON."""
    reader = _Reader()
    value = json.loads(text, object_pairs_hook=reader.take_object, parse_int=reader.take_integer)
    if _nesting(value) > MAX_NESTING:
        raise _TooDeepError(f"they are {_TOO_DEEP}")
    if not text.isascii() or _ESCAPED_SURROGATE.search(text) is not None:
        value = mend_text(value)
    return value, reader.contested


class _Reader:
    """Reads objects and integers as Python does, and notes where others do not."""

    def __init__(self) -> None:
        self.contested = ""

    def take_object(self, pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        """Return the object; the last of equal keys wins."""
        found: dict[str, Json] = {}
        for key, value in pairs:
            # Given twice alike, every reader takes the same.
            if key in found and not json_equal(found[key], value):
                self._note(f"the key {_show(key)} is given twice")
            found[key] = value
        if any(not key.isascii() for key in found):
            self._compare_folded(found)
        return found

    def take_integer(self, digits: str) -> int | float:
        """Return the number; one that 64 bits do not hold as a float, as other readers take it."""
        number = int(digits)
        if _LEAST <= number <= _MOST:
            return number
        self._note("a number has more digits than 64 bits hold")
        return float(digits)

    def _compare_folded(self, found: dict[str, Json]) -> None:
        folded: dict[str, str] = {}
        for key in found:
            other = folded.setdefault(fold_key(key), key)
            if other != key:
                self._note(f"the keys {_show(other)} and {_show(key)} are the same after normalisation")

    def _note(self, why: str) -> None:
        self.contested = self.contested or why


def fold_key(key: str) -> str:
    """Return a key as readers that normalise compare it: NFKC, without characters that nobody sees."""
    plain = unicodedata.normalize("NFKC", key)
    return "".join(char for char in plain if unicodedata.category(char) != "Cf")


def mend_text(value: Json) -> Json:
    """Return the value with each half of a surrogate pair replaced: no store and no alert can hold one."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {mend_text(key): mend_text(item) for key, item in value.items()}
    return [mend_text(item) for item in value] if isinstance(value, list) else value


def bounded(args: Json) -> Json:
    """Return arguments that a framework has read; too deep ones become a text that is not JSON."""
    return UNREAD.value if _nesting(args) > MAX_NESTING else mend_text(args)


def is_deep(args: Json) -> bool:
    """Whether arguments that came as values are nested deeper than rules and stores go."""
    if type(args) is dict:
        for item in args.values():
            kind = type(item)
            if kind is dict or kind is list:
                break
        else:
            return False
    try:
        if len(_pack(args)) <= MAX_NESTING:  # each level takes a byte
            return False
    except RecursionError:
        return True
    except (TypeError, ValueError, OverflowError):
        pass  # of callers in this process: a value that JSON does not have
    return _nesting(args) > MAX_NESTING


def _nesting(value: Json) -> int:
    """Return how many objects and lists lie in one another, up to one too many."""
    return sum(1 for _ in islice(_layers(value), MAX_NESTING + 1))


def _show(key: str) -> str:
    return ascii(key[:_SHOWN])


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
